package await_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
)

func TestFor(t *testing.T) {
	polls := 0
	await.For(t, "three polls", func() bool { polls++; return polls == 3 })
	if polls != 3 {
		t.Errorf("%d polls", polls)
	}
}

func TestValue(t *testing.T) {
	from := make(chan int, 1)
	from <- 7
	if got := await.Value(t, "a number", from); got != 7 {
		t.Errorf("got %d", got)
	}
	close(from)
	if got := await.Value(t, "the end", from); got != 0 {
		t.Errorf("got %d", got)
	}
}

// A wait in vain ends, and says for what it was.
func TestWaitInVain(t *testing.T) {
	for name, wait := range map[string]func(testing.TB){
		"for":   func(t testing.TB) { await.For(t, "never", func() bool { return false }) },
		"value": func(t testing.TB) { await.Value(t, "never", make(chan int)) },
	} {
		t.Setenv("AGENTSTORE_TEST_PATIENCE", "1ms")
		recorded := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // ended by Fatalf
			defer close(done)
			wait(recorded)
		}()
		<-done
		if !strings.Contains(recorded.failure, "waited in vain: never") || !strings.Contains(recorded.failure, "goroutine") {
			t.Errorf("%s: failed with %q", name, recorded.failure)
		}
	}
}

// In a bubble of testing/synctest a wait takes no time, and one in vain ends, too.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{time.Minute, 59 * time.Minute} {
			end := time.Now().Add(wait)
			await.For(t, "some time", func() bool { return time.Now().After(end) })
		}
		if ctx := await.Context(t); ctx.Err() != nil {
			t.Error(ctx.Err())
		}
		if end := await.End(t); end.After(time.Now().Add(time.Hour)) {
			t.Errorf("a wait ends at %v", end)
		}
	})
}

// recorder is a test that keeps its failure.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.failure = strings.TrimSpace(strings.ReplaceAll(format, "%s\n%s", arguments[0].(string)+"\n"+string(arguments[1].([]byte))))
	runtime.Goexit()
}

// Real time: the deadline of the test itself.
func TestEndIsBeforeTheDeadline(t *testing.T) {
	deadline, ok := t.Deadline()
	if !ok {
		t.Skip("this run has no deadline")
	}
	if end := await.End(t); !end.Before(deadline) {
		t.Errorf("a wait ends at %v, the test at %v", end, deadline)
	}
	if end, ok := await.Context(t).Deadline(); !ok || !end.Before(deadline) {
		t.Errorf("the context ends at %v", end)
	}
}
