package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Two who append the same part at the same moment, as an attempt whose answer was lost and the next
// one do, store it once, and both are told so.
func TestSamePartAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	a, b := process(t, databaseURL), process(t, databaseURL)
	stream := openStream(t, a, "a")
	for i := range 200 {
		at := stream
		at.Next = int64(i)
		part := []byte(fmt.Sprint("part ", i))
		var other error
		var beside sync.WaitGroup
		beside.Go(func() { _, other = b.Streams().Append(t.Context(), at, part) })
		_, err := a.Streams().Append(t.Context(), at, part)
		beside.Wait()
		if err != nil || other != nil {
			t.Fatalf("part %d: %v, %v", i, err, other)
		}
	}
}

// Whoever opens a stream that somebody appends to learns of all its parts: its own first part is
// the next one.
func TestStreamOpenedBesideAppends(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	a, b := process(t, databaseURL), process(t, databaseURL)
	for i := range 50 {
		stream := openStream(t, a, "a")
		var beside sync.WaitGroup
		beside.Go(func() {
			for {
				next, err := a.Streams().Append(t.Context(), stream, []byte("x"))
				if err != nil {
					if _, fenced := errors.AsType[*repo.StreamFencedError](err); !fenced {
						t.Error(err)
					}
					return
				}
				stream.Next = next
			}
		})
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		taken := openStream(t, b, "a")
		if _, err := b.Streams().Append(t.Context(), taken, []byte("y")); err != nil {
			t.Errorf("after it was opened at %d: %v", taken.Next, err)
		}
		beside.Wait()
	}
}
