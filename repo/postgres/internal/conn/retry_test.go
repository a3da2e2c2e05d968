package conn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// Pauses have the documented lengths and number, and end with the context.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempt := 1; attempt < MaxAttempts; attempt++ {
			longest := firstPause << (attempt - 1)
			begin := time.Now()
			if !Pause(t.Context(), attempt) {
				t.Errorf("no attempt after the %dth", attempt)
			}
			if took := time.Since(begin); took < longest/2 || took > longest {
				t.Errorf("pause %d took %v", attempt, took)
			}
		}
		if Pause(t.Context(), MaxAttempts) {
			t.Error("one attempt too many")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if Pause(ctx, 1) {
			t.Error("another attempt with an ended context")
		}
	})
}
