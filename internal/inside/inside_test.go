package inside

import (
	"context"
	"testing"
)

func TestInside(t *testing.T) {
	t.Parallel()
	a, b := new(int), new(int)
	ctx := t.Context()
	if Is(ctx, a) {
		t.Error("inside of nothing")
	}
	inA, leaveA := Enter(ctx, a)
	inB, leaveB := Enter(inA, b)
	derived, cancel := context.WithCancel(inB)
	defer cancel()
	if !Is(inA, a) || Is(inA, b) || !Is(derived, a) || !Is(derived, b) || Is(ctx, a) {
		t.Error("transactions one in the other")
	}
	leaveB()
	if !Is(derived, a) || Is(derived, b) {
		t.Error("the inner one has ended")
	}
	again, leaveAgain := Enter(ctx, b)
	leaveA()
	if Is(derived, a) || Is(derived, b) || !Is(again, b) {
		t.Error("both have ended; another is open")
	}
	leaveAgain()
}
