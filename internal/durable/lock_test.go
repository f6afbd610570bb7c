package durable_test

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/git-spot/git-spot/internal/durable"
)

// A lock that no child is to hold is free as soon as it is unlocked, whatever this process starts at that moment.
func TestUnlockBesideForks(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	path := filepath.Join(t.TempDir(), "lock")
	for i := range 3000 {
		lock, err := durable.TryLock(path)
		if err != nil {
			t.Errorf("time %d: %v", i, err)
			break
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}
