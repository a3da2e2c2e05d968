package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func openStream(t *testing.T, r repo.Repositories, key string) repo.Stream {
	t.Helper()
	stream, err := r.Streams().Open(t.Context(), repo.NewStream{Key: key, Owner: "writer", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// addPart appends the part "x".
func addPart(t *testing.T, r repo.Repositories, stream *repo.Stream) {
	t.Helper()
	next, err := r.Streams().Append(t.Context(), *stream, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	stream.Next = next
}

// expire lets a stream expire.
func expireStream(t *testing.T, database pgtest.Database, stream repo.Stream) {
	t.Helper()
	pgtest.Exec(t, database, "UPDATE streams SET expires_at = now() - interval '1 minute' WHERE id = $1", [16]byte(stream.ID))
}

// streamTail follows a stream in a goroutine.
type streamTail struct {
	parts chan repo.StreamPart
	ended chan error
}

func tailStream(t *testing.T, store repo.Repositories, key string, from repo.StreamPosition) *streamTail {
	t.Helper()
	f := &streamTail{make(chan repo.StreamPart, 10_000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		defer close(f.parts)
		var end error
		for part, err := range store.Streams().Follow(ctx, key, from) {
			if end = err; err == nil {
				f.parts <- part
			}
		}
		f.ended <- end
	})
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return f
}

// wants waits for count parts, from a sequence on.
func (f *streamTail) wants(t *testing.T, from, count int64) {
	t.Helper()
	for want := from; want < from+count; want++ {
		if part := await.Value(t, fmt.Sprint("part ", want), f.parts); part.Sequence != want || part.StreamID.IsZero() {
			t.Fatalf("part %d of %s came, want %d", part.Sequence, part.StreamID, want)
		}
	}
}

func (f *streamTail) end(t *testing.T) error {
	t.Helper()
	err := await.Value(t, "the end of Follow", f.ended)
	if len(f.parts) > 0 {
		t.Errorf("%d parts came before the end", len(f.parts))
	}
	return err
}

// Parts and ends get to other processes, whatever happens to the connections of those.
func TestStreamOtherProcess(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	writer := process(t, databaseURL)
	reader := process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "reader" })
	for _, failed := range []bool{false, true} {
		stream := openStream(t, writer, "a")
		first, second := tailStream(t, reader, "a", repo.StreamPosition{}), tailStream(t, reader, "a", repo.StreamPosition{StreamID: stream.ID})
		for range 8 {
			for range 3 {
				addPart(t, writer, &stream)
			}
			first.wants(t, stream.Next-3, 3)
			second.wants(t, stream.Next-3, 3)
			pgtest.Exec(t, conn, "SELECT pg_terminate_backend(pid) "+ofReader)
		}
		if failed {
			if err := writer.Streams().Fail(t.Context(), stream, "why"); err != nil {
				t.Fatal(err)
			}
		} else if err := writer.Streams().Finish(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*streamTail{first, second} {
			if err := f.end(t); errors.Is(err, repo.ErrStreamFailed) != failed || err != nil && !failed {
				t.Errorf("Follow ended with %v", err)
			}
		}
	}
}

// What is written in a transaction of the caller's is not announced, and found all the
// same; so is an expiry, and a row that is gone.
func TestStreamUnannounced(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, reader := pgtest.Connect(t, databaseURL), process(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, other := openStream(t, reader, "a"), openStream(t, reader, "b")
	f, lost := tailStream(t, reader, "a", repo.StreamPosition{}), tailStream(t, reader, "b", repo.StreamPosition{})
	bound := postgres.Bind(tx)
	addPart(t, bound, &stream)
	addPart(t, bound, &stream)
	addPart(t, bound, &other)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wants(t, 0, 2)
	lost.wants(t, 0, 1)
	time.Sleep(100 * time.Millisecond) // pace: the reader waits by then, and has to be told by the poll
	expireStream(t, conn, stream)
	if err := f.end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
	pgtest.Exec(t, conn, "DELETE FROM stream_parts")
	pgtest.Exec(t, conn, "DELETE FROM streams")
	if err := lost.end(t); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Follow ended with %v", err)
	}
}

// An end that a transaction of the caller's commits is found, too.
func TestStreamEndIsPolled(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, reader := pgtest.Connect(t, databaseURL), process(t, databaseURL)
	stream := openStream(t, reader, "a")
	addPart(t, reader, &stream)
	f := tailStream(t, reader, "a", repo.StreamPosition{})
	f.wants(t, 0, 1)
	pgtest.Exec(t, conn, "UPDATE streams SET status = 'finished'")
	if err := f.end(t); err != nil {
		t.Errorf("Follow ended with %v", err)
	}
}

// A stream whose row is locked delays no write to others, and is written to when it is
// free.
// Guarantee: Streams: A stream whose row is locked delays no other.
func TestLockedStreamStopsNoOther(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	locked, free := openStream(t, store, "locked"), openStream(t, store, "free")
	var err error
	if locked.Next, err = store.Streams().Append(t.Context(), locked, []byte("w")); err != nil { // the store has a hint
		t.Fatal(err)
	}
	release := lock(t, others, "SELECT FROM streams WHERE id = $1 FOR UPDATE", [16]byte(locked.ID))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bounded := await.Context(t)
	waiting, withdrawn := make(chan error, 1), make(chan error, 1)
	awaitTried(t, store, 0, func() {
		go func() { waiting <- second(store.Streams().Append(t.Context(), locked, []byte("x"))) }()
		go func() {
			withdrawn <- second(store.Streams().Append(ctx, repo.Stream{Key: "locked", ID: locked.ID, Fence: locked.Fence, Next: 2}, []byte("y")))
		}()
	})
	for range 50 {
		next, err := store.Streams().Append(bounded, free, []byte("x"))
		if err != nil {
			release()
			t.Fatal(err)
		}
		free.Next = next
	}
	cancel()
	if err := <-withdrawn; !errors.Is(err, context.Canceled) && !errors.Is(err, repo.ErrUnknownOutcome) {
		t.Errorf("an append that was cancelled gave %v", err)
	}
	select {
	case err := <-waiting:
		t.Errorf("an append to a locked stream gave %v", err)
	default:
	}
	release()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if got := pgtest.Value[int64](t, others, "SELECT count(*) FROM stream_parts WHERE stream_id = $1", [16]byte(locked.ID)); got != 2 {
		t.Errorf("%d parts are stored, want 2", got)
	}
}

// Appends to many streams at the same time are few transactions.
func TestStreamGroups(t *testing.T) {
	t.Parallel()
	const streams = 64
	store, others := openNarrow(t)
	release := lock(t, others, "LOCK TABLE stream_parts IN SHARE MODE")
	var running sync.WaitGroup
	add := func(stream repo.Stream) {
		running.Go(func() { addPart(t, store, &stream) })
	}
	open := make([]repo.Stream, streams)
	for i := range open {
		open[i] = openStream(t, store, repo.NewID().String())
	}
	add(open[0]) // a group by itself
	pgtest.AwaitLockWait(t, others, 1)
	for _, stream := range open[1:] {
		add(stream)
	}
	awaitQueued(t, store, streams-1)
	release()
	running.Wait()
	if transactions := pgtest.Value[int](t, others, "SELECT count(DISTINCT xmin::text) FROM stream_parts"); transactions > streams/8 {
		t.Errorf("%d appends were %d transactions", streams, transactions)
	}
}

// Appends to one stream that follow one another are joined; one that does not fit fails
// without the others.
func TestStreamJoinedAppends(t *testing.T) {
	t.Parallel()
	const appends = 20
	store, others := openNarrow(t)
	stream := openStream(t, store, "a")
	release := lock(t, others, "LOCK TABLE stream_parts IN SHARE MODE")
	var running sync.WaitGroup
	for i := range int64(appends) {
		at := stream
		at.Next = i
		running.Go(func() { // as a writer that does not wait for the answers
			for { // in whatever order they arrive
				_, err := store.Streams().Append(t.Context(), at, []byte{byte(i)})
				if ahead, ok := errors.AsType[*repo.SequenceConflictError](err); !ok || ahead.Next > at.Next {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	pgtest.AwaitLockWait(t, others, 1)
	release()
	running.Wait()
	var want []byte
	for i := range byte(appends) {
		want = append(want, i)
	}
	got := pgtest.Value[[]byte](t, others, "SELECT string_agg(data, '' ORDER BY sequence) FROM stream_parts")
	if !bytes.Equal(got, want) {
		t.Errorf("stored are %v", got)
	}
}

// The answer to each piece of an append is lost. It is made again, by the store or by its
// caller, and each part is stored once.
// Guarantee: Streams: A part whose answer is lost is stored once.
func TestStreamLostAnswers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			store, other, network := openLossy(t, mode, agentstore.Options{})
			for piece, lost := int32(1), true; lost; piece++ {
				var stream repo.Stream
				key, count := fmt.Sprint(piece), int64(0)
				network.Lose(piece, false)
				for _, step := range []func() error{
					func() (err error) {
						stream, err = store.Streams().Open(t.Context(), repo.NewStream{Key: key, Owner: "x"})
						return err
					},
					func() error { return second(store.Streams().Append(t.Context(), stream, []byte("x"), []byte("y"))) },
					func() error { stream.Next = 2; return store.Streams().Finish(t.Context(), stream) },
				} {
					for err := step(); err != nil; err = step() {
						if !errors.Is(err, repo.ErrUnknownOutcome) {
							t.Fatalf("the answer to piece %d lost: %v", piece, err)
						}
					}
				}
				lost = network.Stop()
				for part, err := range other.Streams().Follow(t.Context(), key, repo.StreamPosition{}) {
					if err != nil || part.Sequence != count {
						t.Errorf("part %d came after %d, error %v", part.Sequence, count, err)
					}
					count++
				}
				if count != 2 {
					t.Errorf("%d parts are stored, want 2", count)
				}
			}
		})
	}
}

func second[A any](_ A, err error) error { return err }

// Opening clears away what has expired, and what is gone is told apart from what never
// was.
func TestStreamSweep(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), process(t, databaseURL)
	const old = 5
	var last repo.Stream
	for i := range old {
		last = openStream(t, store, fmt.Sprint("old", i))
		for range 3 {
			addPart(t, store, &last)
		}
		expireStream(t, conn, last)
	}
	if _, err := store.Streams().Get(t.Context(), last.Key); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Get gave %v", err)
	}
	kept := openStream(t, store, "kept")
	addPart(t, store, &kept)
	await.For(t, "the streams are removed", func() bool {
		openStream(t, store, "other")
		return pgtest.Value[int](t, conn, "SELECT count(*) FROM streams WHERE key LIKE 'old%'") == 0
	})
	if got := pgtest.Value[int](t, conn, "SELECT count(*) FROM stream_parts"); got != 1 {
		t.Errorf("%d parts are left, want 1", got)
	}
	again := openStream(t, store, last.Key)
	if again.Fence <= last.Fence || again.Next != 0 {
		t.Errorf("opened %+v after %+v", again, last)
	}
	if _, err := store.Streams().Append(t.Context(), last, []byte("x")); !errors.Is(err, repo.ErrGone) {
		t.Errorf("Append gave %v", err)
	}
	for _, err := range store.Streams().Follow(t.Context(), last.Key, repo.StreamPosition{StreamID: last.ID, Sequence: 1}) {
		if !errors.Is(err, repo.ErrGone) {
			t.Errorf("Follow gave %v", err)
		}
	}
}

// A removal is bounded by parts and by bytes, which are not mistaken for one another: parts that are larger than a byte are removed
// as many at once as small ones.
func TestStreamRemovalIsNotOfBytes(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), process(t, databaseURL)
	expired := func(streams, size int) {
		pgtest.Exec(t, conn, `INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
			SELECT gen_random_uuid(), 'a' || n, 'b', gen_random_uuid(), n, n, 'finished', '1 minute', now() - interval '1 second'
			FROM generate_series(1, $1::integer) n`, streams)
		pgtest.Exec(t, conn, `INSERT INTO stream_parts (stream_id, sequence, data)
			SELECT id, n, convert_to(repeat('x', $1::integer), 'UTF8') FROM streams, generate_series(0, 19) n`, size)
	}
	expired(30, 520)
	for limit, want := range map[int]int64{10: 10, 100: 100} {
		if removed, err := removeExpired(t.Context(), store, limit); err != nil || removed.Parts != want {
			t.Errorf("a removal of %d: %+v, %v", limit, removed, err)
		}
	}
	if removed, err := removeExpired(t.Context(), store, 0); err != nil || removed.Parts != 30*20-110 {
		t.Errorf("a removal of 1,000: %+v, %v", removed, err)
	}
	// Of large ones it removes 8 KiB for each part that it might, and one at least.
	expired(1, 1<<20)
	for limit, want := range map[int]int64{1: 1, 256: 2} {
		if removed, err := removeExpired(t.Context(), store, limit); err != nil || removed.Parts != want {
			t.Errorf("a removal of %d of large parts: %+v, %v", limit, removed, err)
		}
	}
}

// Concurrent removers leave one another's streams out, and together remove all.
func TestStreamRemovers(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, databaseURL), process(t, databaseURL)
	pgtest.Exec(t, conn, `INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
		SELECT gen_random_uuid(), 'a', 'b', gen_random_uuid(), n, n, 'finished', '1 minute', now() - interval '1 second' * n
		FROM generate_series(1, 60) n`)
	pgtest.Exec(t, conn, "INSERT INTO stream_parts (stream_id, sequence, data) SELECT id, n, 'x' FROM streams, generate_series(0, 9) n")
	var mu sync.Mutex
	var removed removal
	for removed.Streams < 60 && !t.Failed() {
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				some, err := removeExpired(t.Context(), store, 35)
				if err != nil || some.Parts > 35 || some.Streams > 35 {
					t.Errorf("removed %+v, %v", some, err)
				}
				mu.Lock()
				defer mu.Unlock()
				removed.Parts, removed.Streams = removed.Parts+some.Parts, removed.Streams+some.Streams
			})
		}
		running.Wait()
	}
	if removed != (removal{Streams: 60, Parts: 600}) {
		t.Errorf("removed %+v", removed)
	}
}

// A fence is taken after the wait for others, also for writers that leave no open
// stream behind.
// Guarantee: Streams: A fence is larger than all before it.
func TestStreamFenceAfterTheWait(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, conn := process(t, databaseURL), pgtest.Connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "SELECT pg_advisory_xact_lock(hashtextextended('a', hashtext('local')))")
	opened := make(chan repo.Stream, 1)
	go func() {
		stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "a", Owner: "x"})
		if err != nil {
			t.Error(err)
		}
		opened <- stream
	}()
	pgtest.AwaitLockWait(t, store.Pool(), 1)
	// Others open and finish the stream meanwhile.
	before := openStream(t, postgres.Bind(tx), "a")
	if err := postgres.Bind(tx).Streams().Finish(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := <-opened
	if after.Fence <= before.Fence || after.ID == before.ID {
		t.Errorf("opened %+v after %+v", after, before)
	}
	if newest, err := store.Streams().Get(t.Context(), "a"); err != nil || newest.ID != after.ID {
		t.Errorf("the newest is %+v, %v", newest, err)
	}
}

// A call of Open that is sent twice, because its answer was lost, gives one fence, and
// its second arrival fences off no writer. One that finds the stream expired begins
// another one.
func TestStreamOpenedTwice(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, conn := process(t, databaseURL), pgtest.Connect(t, databaseURL)
	params := db.StreamOpenParams{ID: pgtype.UUID{Bytes: repo.NewID(), Valid: true}, Namespace: "local", Key: "a", Owner: "x", TtlSeconds: 3600}
	first, err := db.New().StreamOpen(t.Context(), conn, params)
	if err != nil {
		t.Fatal(err)
	}
	again, err := db.New().StreamOpen(t.Context(), conn, params)
	if err != nil || again.Fence != first.Fence || again.ID != first.ID {
		t.Errorf("opened %+v, then %+v, %v", first, again, err)
	}
	stream := repo.Stream{Key: "a", ID: first.ID.Bytes, Fence: first.Fence}
	addPart(t, store, &stream)
	expireStream(t, conn, stream)
	if next := openStream(t, store, "a"); next.ID == stream.ID || next.Fence <= stream.Fence {
		t.Errorf("opened %+v after %+v, which had expired", next, stream)
	}
}

// A removal does not wait for a locked stream.
func TestStreamRemovalLeavesLockedOut(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	locked, free := openStream(t, store, "locked"), openStream(t, store, "free")
	addPart(t, store, &locked)
	addPart(t, store, &free)
	expireStream(t, others, locked)
	expireStream(t, others, free)
	release := lock(t, others, "SELECT FROM streams WHERE id = $1 FOR NO KEY UPDATE", [16]byte(locked.ID))
	bounded := await.Context(t)
	if removed, err := removeExpired(bounded, store, 0); err != nil || removed != (removal{Streams: 1, Parts: 1}) {
		t.Errorf("removed %+v, %v", removed, err)
	}
	release()
	if removed, err := removeExpired(bounded, store, 0); err != nil || removed != (removal{Streams: 1, Parts: 1}) {
		t.Errorf("removed %+v, %v", removed, err)
	}
}

// The naive way to append reads the next sequence, and then inserts the part. Writers of one
// stream use one another's, which the primary key shows.
func TestNaiveStreamIsCaught(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool, store := pgtest.NewPool(t, databaseURL), process(t, databaseURL)
	stream := openStream(t, store, "a")
	for range 50 {
		var running sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 8 {
			running.Go(func() {
				for range 10 {
					var next int64
					err := pool.QueryRow(t.Context(), "SELECT coalesce(max(sequence) + 1, 0) FROM stream_parts WHERE stream_id = $1", [16]byte(stream.ID)).Scan(&next)
					if err == nil {
						_, err = pool.Exec(t.Context(), "INSERT INTO stream_parts (stream_id, sequence, data) VALUES ($1, $2, 'x')", [16]byte(stream.ID), next)
					}
					if err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
			})
		}
		running.Wait()
		if refused > 0 {
			return
		}
	}
	t.Error("the naive way was never caught: no test here would find a race")
}

// A reader that is slow, and one of the whole stream, get every part of a stream that
// grows.
func TestStreamSlowReader(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := process(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 1 })
	stream := openStream(t, store, "a")
	const total = 400
	var running sync.WaitGroup
	running.Go(func() {
		for range total / 4 {
			next, err := store.Streams().Append(t.Context(), stream, []byte("a"), []byte("b"), []byte("c"), []byte("d"))
			if err != nil {
				t.Error(err)
				return
			}
			stream.Next = next
		}
		if err := store.Streams().Finish(t.Context(), stream); err != nil {
			t.Error(err)
		}
	})
	for _, pause := range []time.Duration{0, time.Millisecond} {
		running.Go(func() {
			next := int64(0)
			for part, err := range store.Streams().Follow(t.Context(), "a", repo.StreamPosition{}) {
				if err != nil || part.Sequence != next {
					t.Errorf("part %d came after %d, error %v", part.Sequence, next, err)
					return
				}
				next++
				time.Sleep(pause) // pace: one reader is slower than the writer
			}
			if next != total {
				t.Errorf("%d parts came, want %d", next, total)
			}
		})
	}
	running.Wait()
}

// removal is what a call of RemoveExpired has removed.
type removal struct{ Streams, Parts int64 }

func removeExpired(ctx context.Context, store repo.Store, limit int) (removed removal, err error) {
	removed.Streams, removed.Parts, err = store.Streams().RemoveExpired(ctx, limit)
	return removed, err
}
