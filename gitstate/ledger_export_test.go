package gitstate

import (
	"context"
	"io"
	"time"

	"github.com/git-spot/git-spot/schemas"
)

// Allowed reports whether Begin would accept by in state s.
func Allowed(s *schemas.RunState, by Trigger, gone bool) bool { return allowed(s, by, gone) }

// Move is the row that leads from before to after.
func Move(before, after *schemas.RunState, by Trigger, gone bool) (Transition, error) {
	return transition(before, after, by, gone)
}

// The codecs, for fuzzing.
var (
	Escape        = func(s string) string { return escape(s, true) }
	Unescape      = unescape
	LedgerMessage = ledgerMessage
	ParseTrailers = parseTrailers
	ParseRaw      = parseRaw
	ParseClaim    = parseClaim
	Cut           = cut
)

// ParseLedgerMessage reads the message of an event.
func ParseLedgerMessage(message string, id RunID) (string, Summary, error) {
	return parseLedgerMessage(message, id)
}

// FormatTrailers writes a title line and trailers given as key, value, key, value...
func FormatTrailers(title string, keysAndValues ...string) string {
	var trailers []trailer
	for i := 0; i < len(keysAndValues); i += 2 {
		trailers = append(trailers, trailer{keysAndValues[i], keysAndValues[i+1]})
	}
	return formatTrailers(title, trailers)
}

// MeasurePatch reads a patch and returns bytes, added and deleted lines of each file.
func MeasurePatch(r io.Reader) ([][3]int64, error) {
	m := &patchMeter{}
	err := m.read(r)
	var files [][3]int64
	for _, s := range m.sections {
		files = append(files, [3]int64{s.bytes, int64(s.added), int64(s.deleted)})
	}
	return files, err
}

// WriteNotes is the notes tree with blobs, keyed by object id, in it.
func (l *Ledger) WriteNotes(ctx context.Context, tree OID, blobs map[string]OID) (OID, error) {
	return l.writeNotes(ctx, tree, blobs, 0)
}

// ReadNotes reads the notes on an object.
func (l *Ledger) ReadNotes(ctx context.Context, object OID) ([]string, error) {
	return l.readNotes(ctx, object)
}

// SetStore puts another store in place of the one that Open chose.
func (l *Ledger) SetStore(s Store) { l.store = s }

// SetAbortWait is for tests that do not want to wait so long.
func (l *Ledger) SetAbortWait(d time.Duration) { l.abortWait = d }

// Choose picks a slot: slots maps the numbers of existing slots to whether they are held.
func Choose(slots map[int]bool, limit int) int {
	var all []slot
	for n := 1; n <= 64; n++ {
		if held, ok := slots[n]; ok {
			all = append(all, slot{number: n, held: held, oid: "x"})
		}
	}
	n, _ := choose(all, "run", limit)
	return n
}

// LockPath is where the lock is that the phase holds, "" if it holds none.
func (p *Phase) LockPath() string {
	if p.lock == nil {
		return ""
	}
	return p.ledger.lockPath(p.ID)
}

// Limited is a run in state s that may be revised most times.
func Limited(s *schemas.RunState, most int) *Run {
	return &Run{State: *s, maxRevisions: func() (int, bool) { return most, true }}
}
