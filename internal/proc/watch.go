package proc

import (
	"context"
	"time"
)

// stopper is how watch ends a child. None of its functions blocks.
type stopper struct {
	term     func() // ask it to end
	force    func() // the last resort
	patience time.Duration
}

// watch waits until done is closed and stops the child when ctx or a limit says so: term first, force
// when it is still there patience after that. It returns the first reason for which the child was
// stopped, empty if it was not.
func watch(ctx context.Context, c Command, s *streams, done <-chan struct{}, stop stopper) End {
	var reason End
	var patience <-chan time.Time
	interrupted, settled := ctx.Done(), c.Settled
	wall, idle, last := after(c.Wall), after(c.Idle), (<-chan time.Time)(nil)

	end := func(why End) {
		if reason == "" {
			reason = why
			patience = time.After(stop.patience)
			stop.term()
		}
	}
	for {
		select {
		case <-done:
			return reason
		case <-interrupted:
			interrupted = nil
			end(EndInterrupted)
		case <-wall:
			end(EndTimedOut)
		case <-idle:
			if left := c.Idle - s.silence(); left > 0 {
				idle = time.After(left)
			} else {
				end(EndIdle)
			}
		case <-settled:
			settled = nil
			last = time.After(c.Drain)
		case <-last:
			end(EndSettled)
		case <-patience:
			stop.force()
		}
	}
}

// after is time.After, or never if d is zero.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}
