package claim

import (
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// A claim looks from where the one before has found something, a little earlier, and at all once a
// second, or less often if that takes long.
func TestQueueHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h queueHeads
		first := time.Now().Add(-time.Hour)
		since, looked := h.from("a")
		if !since.IsZero() {
			t.Errorf("the first claim looks since %v", since)
		}
		looked(first)
		if since, looked = h.from("a"); !since.Equal(first.Add(-lateCommit)) {
			t.Errorf("the second claim looks since %v", since)
		}
		looked(first.Add(time.Minute))
		if since, _ = h.from("a"); !since.Equal(first.Add(time.Minute - lateCommit)) {
			t.Errorf("the third claim looks since %v", since)
		}
		if since, _ = h.from("b"); !since.IsZero() {
			t.Errorf("a claim of other plans looks since %v", since)
		}
		time.Sleep(wholeLook)
		if since, looked = h.from("a"); !since.IsZero() {
			t.Errorf("after a second, a claim looks since %v", since)
		}
		time.Sleep(100 * time.Millisecond) // it took long
		looked(first)
		time.Sleep(wholePart*100*time.Millisecond - 1)
		if since, _ = h.from("a"); since.IsZero() {
			t.Error("a claim looks at all too soon after one that took long")
		}
		time.Sleep(time.Nanosecond)
		if since, _ = h.from("a"); !since.IsZero() {
			t.Errorf("a claim never looks at all again")
		}
		_, looked = h.from("a")
		time.Sleep(time.Hour) // the process was stopped, or a trigger has waited
		looked(first)
		time.Sleep(seldomLook)
		if since, _ = h.from("a"); !since.IsZero() {
			t.Error("after a claim that took an hour, none looks at all for days")
		}
	})
}
