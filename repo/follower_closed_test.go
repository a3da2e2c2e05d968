package repo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A context that has ended before it is the call's turn closes nothing, also if nobody else uses
// the follower.
func TestFollowerIsNotClosedByContextThatHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a select chooses at random
		running := 0
		f := newFollower(t.Context(), counting(1, nil, true, &running))
		wantNext(t, ended, f, 0, context.Canceled)
		wantNext(t, t.Context(), f, 0, nil)
		_ = f.Close()
		if t.Failed() {
			return
		}
	}
}

// When Next's context ends, the follower is closed: what is followed has ended.
func TestFollowerThatIsClosedByContextLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		f := newFollower(t.Context(), counting(1, nil, true, &running))
		defer f.Close()
		wantNext(t, t.Context(), f, 0, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantNext(t, ctx, f, 0, context.DeadlineExceeded)
		if running != 0 {
			t.Error("it goes on after the follower was closed")
		}
	})
}
