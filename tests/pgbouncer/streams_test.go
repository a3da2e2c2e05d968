package pgbouncer

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Behind a transaction pooler a stream has no notifications: the poll finds its parts and
// its end, of any writer. Writers share the pooler's sessions, and a writer that was
// replaced is refused there, too.
func TestStreams(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	behind := func(application string) *agentstore.Store { // another name makes it a separate pool
		pooler := pgtest.NewBouncer(t, databaseURL, "transaction", poolerSessions)
		return pgtest.OpenStore(t, pgtest.WithParameter(withMode(pooler, documentedMode), "application_name", application), agentstore.Options{MaxConns: 8})
	}
	stores := map[string]*agentstore.Store{
		"a pooler": behind("writer"), "another pooler": behind("reader"), "the server": pgtest.OpenStore(t, databaseURL, agentstore.Options{}),
	}
	for name, writer := range stores {
		open := func() repo.Stream {
			stream, err := writer.Streams().Open(t.Context(), repo.NewStream{Key: name, Owner: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return stream
		}
		replaced := open()
		stream := open()
		var reading sync.WaitGroup
		const parts = 30
		for where, reader := range stores {
			reading.Go(func() {
				var next int64
				for part, err := range reader.Streams().Follow(t.Context(), name, repo.StreamPosition{StreamID: stream.ID}) {
					if err != nil || part.Sequence != next || !bytes.Equal(part.Data, []byte{byte(next)}) {
						t.Errorf("from %s to %s: part %d, %v, %v, want part %d", name, where, part.Sequence, part.Data, err, next)
						return
					}
					next++
				}
				if next != parts {
					t.Errorf("from %s to %s: %d parts, want %d", name, where, next, parts)
				}
			})
		}
		for n := range byte(parts) {
			if _, err := writer.Streams().Append(t.Context(), replaced, []byte("late")); !isFenced(err) {
				t.Errorf("the writer that was replaced got %v", err)
			}
			next, err := writer.Streams().Append(t.Context(), stream, []byte{n})
			if err != nil {
				t.Fatal(err)
			}
			stream.Next = next
		}
		if err := writer.Streams().Finish(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
	}
	if listening := pgtest.Value[int](t, pgtest.Connect(t, databaseURL), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'listen %'`); listening > 1 {
		t.Errorf("%d sessions listen, want the direct one at most", listening)
	}
}

func isFenced(err error) bool {
	_, fenced := errors.AsType[*repo.FencedError](err)
	return fenced
}
