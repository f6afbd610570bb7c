package proc

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type (
	lockKey  struct{}
	traceKey struct{}
)

// WithLock returns a context under which Exec children and supervisors inherit the descriptor f,
// beside those of contexts above; what Supervise starts never does. So a flock on f is held until
// the last of them has ended, even if this process is killed. The caller keeps f open until the calls
// under the context have returned.
func WithLock(ctx context.Context, f *os.File) context.Context {
	return context.WithValue(ctx, lockKey{}, append(slices.Clip(locks(ctx)), f))
}

func locks(ctx context.Context) []*os.File {
	files, _ := ctx.Value(lockKey{}).([]*os.File)
	return files
}

type tracer struct {
	mu sync.Mutex
	w  io.Writer
}

// WithTrace returns a context under which every child that ends leaves one line in w: when it
// started, how long it took, its end and its arguments. Each line is one Write and Writes are never
// concurrent. Arguments are not redacted here: w does that, or no secret is an argument. Errors of w are
// dropped.
func WithTrace(ctx context.Context, w io.Writer) context.Context {
	return context.WithValue(ctx, traceKey{}, &tracer{w: w})
}

func trace(ctx context.Context, start time.Time, argv []string, r Result) {
	t, ok := ctx.Value(traceKey{}).(*tracer)
	if !ok {
		return
	}
	end := "exit " + strconv.Itoa(r.Exit)
	if r.Signal != "" {
		end = r.Signal
	}
	if r.End != EndExited && r.End != EndSignaled {
		end += " " + string(r.End)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s git-spot: %9.3f ms %s: %s\n", start.Format("15:04:05.000000"), r.Duration.Seconds()*1e3, end, quoted(argv))
}

// quoted is argv on one line, each argument quoted if it is not plain, and long ones cut.
func quoted(argv []string) string {
	const longest = 200
	words := make([]string, len(argv))
	for i, word := range argv {
		if len(word) > longest {
			word = word[:longest] + "..."
		}
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\`$", r)
		}) {
			word = strconv.Quote(word)
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}
