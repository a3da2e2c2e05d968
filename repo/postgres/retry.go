package postgres

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// maxAttempts bounds how often an operation is begun.
	maxAttempts = 5
	// firstPause is the longest pause before the second attempt; each further
	// one may be twice as long.
	firstPause = 10 * time.Millisecond
)

// pause waits before attempt (1 is the second one), between half and all of its
// time, so that callers who collided once do not collide again in step. False:
// the context ended, or there were attempts enough.
func pause(ctx context.Context, attempt int) bool {
	if attempt >= maxAttempts {
		return false
	}
	longest := firstPause << (attempt - 1)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
