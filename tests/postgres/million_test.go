package postgres

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
)

const million = 1_000_000

// heapBound is how far the heap may grow while a million messages pass, which
// together are some 200 MB.
const heapBound = 48 << 20

// A session of a million messages is streamed, exported and imported in bounded
// memory.
func TestMillionMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("a million messages take a while; the long run has them")
	}
	// Not parallel: it measures the heap.
	from, to := openStore(t), openStore(t)
	id := newSession(t, from)
	if _, err := from.Pool().Exec(t.Context(), `
		INSERT INTO messages (session_id, sequence, id, role, content, metadata)
		SELECT c.session_id, n, gen_random_uuid(), 'user', repeat('content ', 20), '{"n": 1}'
		FROM session_counters c, generate_series(0, `+"999999"+`) n WHERE c.session_id = '`+uuidText(id)+`';
		UPDATE session_counters SET next_sequence = 1000000 WHERE session_id = '`+uuidText(id)+`'`); err != nil {
		t.Fatal(err)
	}

	heap := watchHeap()
	var next int64
	begin := time.Now()
	for message, err := range from.Sessions().Stream(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != next {
			t.Fatalf("sequence %d after %d messages", message.Sequence, next)
		}
		next++
	}
	if next != million {
		t.Fatalf("%d messages", next)
	}
	t.Logf("streamed in %s, the heap grew by %d KiB", time.Since(begin).Round(time.Millisecond), heap()>>10)

	heap = watchHeap()
	begin = time.Now()
	reader, writer := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		err := from.Sessions().Export(t.Context(), id, writer)
		_ = writer.CloseWithError(err)
		exported <- err
	}()
	session, err := to.Sessions().Import(t.Context(), reader)
	_ = reader.CloseWithError(io.ErrClosedPipe)
	if exportErr := <-exported; exportErr != nil || err != nil {
		t.Fatalf("export: %v, import: %v", exportErr, err)
	}
	if session.MessageCount != million {
		t.Fatalf("%d messages imported", session.MessageCount)
	}
	t.Logf("exported and imported in %s, the heap grew by %d KiB", time.Since(begin).Round(time.Millisecond), heap()>>10)
	if grown := heap(); grown > heapBound {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}

	last, err := to.Sessions().LastMessages(t.Context(), id, 1)
	if err != nil || last[0].Sequence != million-1 {
		t.Fatalf("last message: %v, %v", last, err)
	}
	if _, err := to.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func uuidText(id repo.ID) string {
	text, err := pgtype.UUID{Bytes: id, Valid: true}.Value()
	if err != nil {
		panic(err)
	}
	return text.(string)
}

// watchHeap samples the heap until its result is called, which returns by how
// much it grew at most.
func watchHeap() func() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	start, highest := stats.HeapAlloc, stats.HeapAlloc
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				highest = max(highest, stats.HeapAlloc)
			}
		}
	}()
	stopped := false
	return func() uint64 {
		if !stopped {
			stopped = true
			close(stop)
			<-done
		}
		return highest - start
	}
}
