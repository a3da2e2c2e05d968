//go:build !race

package postgres

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// manyMessages are 80 MB together: each repeats eight characters so often.
var manyMessages, repeated = pgtest.Choose[int64](250_000, 25_000), pgtest.Choose(40, 400)

// heapBound is how far the heap may grow meanwhile.
const heapBound = 48 << 20

// A session of very many messages is streamed, exported and imported in bounded
// memory.
func TestAmountOfMessages(t *testing.T) {
	// Not parallel: it measures the heap. It collects early, so that what is garbage is hardly counted: how much of
	// that there is depends on how fast the machine is, and on what other tests hold.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	from, to := pgtest.NewStore(t, agentstore.Options{}), pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, from)
	count := manyMessages
	pgtest.Exec(t, from.Pool(), `
		INSERT INTO messages (session_id, sequence, id, role, content, metadata)
		SELECT c.session_id, n, gen_random_uuid(), 'user', repeat('content ', `+fmt.Sprint(repeated)+`), '{"n": 1}'
		FROM session_counters c, generate_series(0, `+fmt.Sprint(count-1)+`) n WHERE c.session_id = '`+id.String()+`';
		UPDATE session_counters SET next_sequence = `+fmt.Sprint(count)+` WHERE session_id = '`+id.String()+`'`)

	heap := watchHeap()
	if got := pgtest.CountDense(t, from, id); got != count {
		t.Fatalf("%d messages, want %d", got, count)
	}
	t.Logf("streamed, the heap grew by %d KiB", heap()>>10)

	heap = watchHeap()
	reader, writer := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		err := from.Sessions().Export(t.Context(), id, writer)
		_ = writer.CloseWithError(err)
		exported <- err
	}()
	session, err := to.Sessions().Import(t.Context(), reader, true)
	_ = reader.CloseWithError(io.ErrClosedPipe)
	if exportErr := <-exported; exportErr != nil || err != nil {
		t.Fatalf("export: %v, import: %v", exportErr, err)
	}
	if session.MessageCount != count {
		t.Fatalf("%d messages imported", session.MessageCount)
	}
	if grown := heap(); grown > heapBound {
		t.Errorf("exported and imported, the heap grew by %d MiB", grown>>20)
	}

	last, err := to.Sessions().LastMessages(t.Context(), id, 1)
	if err != nil || last[0].Sequence != count-1 {
		t.Fatalf("last message: %v, %v", last, err)
	}
	if _, err := to.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// watchHeap samples the heap until the returned function is called, which returns its
// maximum growth.
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
			case <-time.After(10 * time.Millisecond): // pace: samples
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				highest = max(highest, stats.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return highest - start
	}
}
