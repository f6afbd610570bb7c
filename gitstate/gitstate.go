// Package gitstate keeps the lasting state of git spot inside the repository: one ledger per run under
// refs/spot/runs, the commits that a run made under refs/spot/candidates and refs/spot/attempts,
// concurrency slots under refs/spot/slots and notes in refs/notes/spot. docs/format.md describes all of
// it for a second implementer.
//
// A ledger is a chain of commits, one an event. The tree of the newest says all there is to know, and
// the ref that names it moves only by compare-and-swap: whatever kills a writer at whatever instant, a
// reader finds the event before or the event after. Which event may follow which is one table,
// [Transitions].
//
// A run is advanced by one process at a time. [Ledger.Begin] makes this process the owner and returns a
// [Phase]; [Phase.Append] is the only way to write an event. Everything else reads.
//
// Two backends store objects and refs, see [Store]. Nothing above this package knows which is in use.
package gitstate
