// Package await waits in tests for what comes by itself. A wait ends with the test's own
// deadline and with no earlier one: on a slow machine everything comes later, and a bound
// that was long enough here is too short there. Only tests import it.
//
// Real time: this is where it is waited for.
package await

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"
)

// patienceEnv bounds each wait, for a program that expects tests to fail: without it a test
// that waits in vain takes until its deadline.
const patienceEnv = "AGENTSTORE_TEST_PATIENCE"

// left is the time between the end of a wait and the test's deadline, in which the test
// says what it has waited for and removes what it has made.
const left = 20 * time.Second

// For waits until holds returns true. At the end of the test's time the test fails; what
// describes the condition. It polls, so holds may be called often.
func For(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause, end := time.Millisecond, End(t)
	for !holds() {
		if t.Context().Err() != nil || time.Now().After(end) {
			t.Fatalf("waited in vain: %s\n%s", what, stacks())
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Value returns the next value of a channel, or the zero value if it is closed.
func Value[V any](t testing.TB, what string, from <-chan V) V {
	t.Helper()
	timer := time.NewTimer(time.Until(End(t)))
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		t.Fatalf("waited in vain: %s\n%s", what, stacks())
		panic("unreachable")
	}
}

// Context returns a context that ends when the test does, and shortly before its deadline:
// for calls that have to come back, and would otherwise hang.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), End(t))
	t.Cleanup(cancel)
	return ctx
}

// End returns when a wait that begins now ends.
func End(t testing.TB) time.Time {
	end := time.Now().Add(time.Hour) // a benchmark has no deadline, nor has a test with -timeout 0
	if deadline, ok := deadlineOf(t); ok {
		end = deadline.Add(-left)
	}
	if patience, err := time.ParseDuration(os.Getenv(patienceEnv)); err == nil {
		end = earlier(end, time.Now().Add(patience))
	}
	return end
}

// deadlineOf returns the test's deadline. In a bubble of testing/synctest, which has a time of its own, to ask for it
// panics.
func deadlineOf(t testing.TB) (deadline time.Time, ok bool) {
	if test, is := t.(interface{ Deadline() (time.Time, bool) }); is {
		defer func() { _ = recover() }()
		deadline, ok = test.Deadline()
	}
	return deadline, ok
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stacks returns what all goroutines were at, which is what one looks for after a wait in
// vain.
func stacks() []byte {
	text := make([]byte, 1<<20)
	return text[:runtime.Stack(text, true)]
}
