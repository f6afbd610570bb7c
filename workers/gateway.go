package workers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/git-spot/git-spot/internal/durable"
	"github.com/git-spot/git-spot/internal/gateway"
	"github.com/git-spot/git-spot/schemas"
)

// The variables that ask the gateway for a record of what passes it, or for the answers of one.
const (
	recordVariable = "GIT_SPOT_RECORD"
	replayVariable = "GIT_SPOT_REPLAY"
)

// meteredGateway is the gateway of one try with the files that belong to it.
type meteredGateway struct {
	*gateway.Gateway
	files []*os.File
}

// startGateway starts the gateway of a try whose worker wants one, else it returns nil. What the gateway
// counts goes to rec; once the budget is spent it refuses the next request, which ends the worker. The
// error is a *Error.
func startGateway(ctx context.Context, t Turn, ready *prepared, rec *recorder) (_ *meteredGateway, err error) {
	if ready.inv.Credential != credentialGateway {
		return nil, nil
	}
	g := &meteredGateway{}
	defer func() {
		if err != nil {
			err = errors.Join(setupError(t.Profile, "the gateway cannot start", err), g.closeFiles())
		}
	}()
	options := gateway.Options{
		Upstream: t.Profile.BaseURL, API: t.Profile.API, Model: t.Profile.Model, Key: ready.key.value,
		Limits: t.Limits, Rate: t.Rate, Redact: rec.redact,
		Usage:   rec.metered,
		Warn:    rec.warned,
		Refused: func() { rec.stop(errBudget) },
	}
	if path := t.Getenv(recordVariable); path != "" {
		f, err := durable.Append(path, 0o600)
		if err != nil {
			return nil, err
		}
		g.files, options.Record = append(g.files, f), f
	}
	if path := t.Getenv(replayVariable); path != "" {
		f, err := durable.Open(path)
		if err != nil {
			return nil, err
		}
		g.files, options.Replay = append(g.files, f), f
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if g.Gateway, err = gateway.Start(ctx, listener, options); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return g, nil
}

// endpoint is what the worker is told; the zero value without a gateway.
func (g *meteredGateway) endpoint() endpoint {
	if g == nil {
		return endpoint{}
	}
	return endpoint{g.BaseURL(), g.Token()}
}

// free says that the model has not worked: that is known to have cost nothing.
func (g *meteredGateway) free() bool { return g != nil && g.Free() }

func nothing() schemas.Usage {
	var tokens int64
	return schemas.Usage{UncachedInput: &tokens, CacheRead: &tokens, CacheWrite: &tokens, Output: &tokens}
}

// Close ends the gateway, if there is one: no request is under way afterwards.
func (g *meteredGateway) Close() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.Gateway.Close(), g.closeFiles())
}

func (g *meteredGateway) closeFiles() error {
	var errs []error
	for _, f := range g.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// metered accounts for one request that the gateway has seen to its end.
func (r *recorder) metered(u schemas.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(schemas.Event{Type: schemas.EventUsage, Usage: &u})
}

// warned records what the gateway has to say.
func (r *recorder) warned(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warn(text)
}

// maxSession bounds the session file of a worker program.
const maxSession = 64 << 20

// bring puts the kept session of an earlier turn into the worker's home, and says whether there is one.
func bring(t Turn, name string) bool {
	if name == "" || t.Session == "" {
		return false
	}
	data, err := durable.ReadFile(t.Session, maxSession)
	if err != nil {
		return false // a session can be deleted at any time, and the turn begins a new one
	}
	return durable.WriteFile(filepath.Join(t.Home, name), data, 0o600) == nil
}

// refusedSession says whether the worker could not go on with the session that bring gave it: it has the
// session still, and has begun none. It may have been changed, or be that of another model.
func refusedSession(t Turn, try schemas.Try) bool {
	if t.Resume == "" || try.FailureClass != schemas.FailureSetup || try.ExitStatus == nil || try.SessionID != "" {
		return false
	}
	_, err := os.Lstat(t.Session)
	return err == nil
}

// keep saves the worker's session where it outlives the home, in the place of whatever is there. What the
// worker has put into the home is not trusted: only a regular file of sane size is taken, without the
// secrets that the provider may have said, and only the worker ever reads it: the sessions that there are
// are lines of JSON, and stay so.
func keep(t Turn, name string) error {
	if name == "" || t.Session == "" {
		return nil
	}
	err := durable.RemoveAll(t.Session)
	data, readErr := durable.ReadFile(filepath.Join(t.Home, name), maxSession+1)
	if err == nil && readErr == nil && len(data) <= maxSession {
		err = durable.WriteFile(t.Session, []byte(t.Redact.RedactJSON(string(data))), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the worker's session: %w", err)
	}
	return nil
}

// KeepSession saves the session that the worker of a turn left in t.Home, where git spot did not live to do
// so. Only Profile, Home, Session, Redact, Getenv and Credential of t are needed. Nothing is saved without
// the key, which it could hold.
func KeepSession(ctx context.Context, t Turn) error {
	adapter, err := For(t.Profile)
	if err != nil {
		return nil //nolint:nilerr // no worker of this profile could go on in it
	}
	inv, err := adapter.Invocation(t)
	if err != nil || inv.Session == "" {
		return nil //nolint:nilerr // as above
	}
	if _, err := os.Lstat(filepath.Join(t.Home, inv.Session)); err != nil {
		return nil //nolint:nilerr // this worker did not come so far, and an earlier session may be there
	}
	key, err := findKey(ctx, t, inv.Credential)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	t.Redact = redactor(t).With(key.value)
	return keep(t, inv.Session)
}
