package agent

import (
	"context"
	"time"
)

// SetWait replaces the wait before another try.
func (o *Options) SetWait(wait func(context.Context, time.Duration) error) { o.wait = wait }
