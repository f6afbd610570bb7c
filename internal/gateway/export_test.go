package gateway

import (
	"context"
	"net"
	"time"
)

// Patience of a gateway under test.
type Patience = patience

// StartWith is Start with another patience than usual: each of its fields that is not 0 counts.
func StartWith(ctx context.Context, ln net.Listener, o Options, p Patience) (*Gateway, error) {
	for _, pair := range []struct{ to, from *time.Duration }{
		{&p.header, &usual.header},
		{&p.body, &usual.body},
		{&p.write, &usual.write},
		{&p.answer, &usual.answer},
		{&p.stall, &usual.stall},
	} {
		if *pair.to == 0 {
			*pair.to = *pair.from
		}
	}
	return start(ctx, ln, o, p)
}
