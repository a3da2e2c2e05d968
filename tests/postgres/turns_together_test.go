package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// adder adds turns together.
type adder func(ctx context.Context, turns ...repo.Turn) error

func addsTo(r repo.Repositories) adder {
	return func(ctx context.Context, turns ...repo.Turn) error {
		_, err := r.Sessions().AppendTurns(ctx, turns...)
		return err
	}
}

// newSessions makes sessions, and returns their ids in order.
func newSessions(t *testing.T, store repo.Repositories, count int) []repo.ID {
	t.Helper()
	ids := make([]repo.ID, count)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	slices.SortFunc(ids, repo.ID.Compare)
	return ids
}

// turnsOf returns a turn of each session: a message and a number of the session's own.
func turnsOf(ids ...repo.ID) []repo.Turn {
	turns := make([]repo.Turn, len(ids))
	for i, id := range ids {
		turns[i] = repo.Turn{
			SessionID: id,
			Messages:  []repo.NewMessage{user("together")}, State: []repo.StateChange{{Key: "n", Op: repo.StateIncrement, By: 1}},
		}
	}
	return turns
}

// besideHeldTogether is the harness for turns together of which one needs a row that
// somebody else holds, a session's or a shared scope's: meanwhile others add to the
// sessions of the other turns. All of those must come back, but in a naive way, in which
// they wait, too: then they are cancelled. It returns how many failed.
func besideHeldTogether(t *testing.T, connections int, heldRow string, naive bool, way func(*agentstore.Store) adder) (failed int) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
	add := way(store)
	const waiters = 4
	ids := newSessions(t, store, waiters+1)
	free, held := ids[:waiters], ids[waiters]
	waits := func(ids ...repo.ID) []repo.Turn {
		turns := turnsOf(ids...)
		turns[len(turns)-1].State = append(turns[len(turns)-1].State, plusOne("held", "n"))
		return turns
	}
	if err := add(t.Context(), waits(ids...)...); err != nil { // the scopes exist
		t.Fatal(err)
	}
	var waiting, others sync.WaitGroup
	defer waiting.Wait()
	var release func()
	if heldRow == "session" {
		release = sync.OnceFunc(hold(t, holder, held))
	} else {
		release = sync.OnceFunc(lock(t, holder, "SELECT FROM state_scopes WHERE name = 'held' FOR UPDATE"))
	}
	defer release()
	waited, errs := make([]error, waiters), make([]error, 2*waiters)
	wait := func() {
		for i := range waited {
			waiting.Go(func() { waited[i] = add(t.Context(), waits(free[i], held)...) })
		}
	}
	switch {
	case naive:
		wait()
		pgtest.AwaitLockWait(t, holder, waiters)
	case connections > 2:
		wait()
		pgtest.AwaitLockWait(t, holder, 1)
	default: // nobody waits in the database
		awaitTried(t, store, 0, wait)
	}
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	for i := range errs {
		others.Go(func() {
			for range 5 {
				if i < waiters {
					_, errs[i] = store.Sessions().Append(ctx, free[i], user("alone"))
				} else {
					errs[i] = add(ctx, turnsOf(free[i%waiters], free[(i+1)%waiters])...)
				}
				if errs[i] != nil {
					return
				}
			}
		})
	}
	if naive {
		pgtest.AwaitLockWait(t, holder, waiters+1)
		cancel()
	}
	others.Wait()
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed > 0 {
		t.Logf("%d of %d, such as: %v", failed, len(errs), errors.Join(errs...).(interface{ Unwrap() []error }).Unwrap()[0])
	}
	if waits := pgtest.LockWaits(t, holder); failed == 0 && waits > max(1, connections/4) {
		t.Errorf("%d connections of %d wait", waits, connections)
	}
	release()
	waiting.Wait()
	if err := errors.Join(waited...); err != nil {
		t.Errorf("turns that waited: %v", err)
	}
	if failed > 0 {
		return failed
	}
	if got := sumOf(t, store, repo.Scope{Name: "held"}, "n"); got != 1+waiters {
		t.Errorf("the sum of the shared scope is %d, want %d", got, 1+waiters)
	}
	for i, id := range ids {
		want := 1 + 1 + 5 + 2*5
		if i == waiters {
			want = 1 + waiters
		}
		if count := pgtest.CountDense(t, store, id); count != int64(want) {
			t.Errorf("session %d has %d messages, want %d", i, count, want)
		}
		wantSum := want
		if i < waiters {
			wantSum -= 5
		}
		if got := sumOf(t, store, repo.Scope{SessionID: id}, "n"); got != wantSum {
			t.Errorf("the sum of session %d is %d, want %d", i, got, wantSum)
		}
	}
	return 0
}

// Turns together that need a held row stop nobody who needs the others. They wait, and
// are stored when it is free.
func TestHeldRowStopsNoOtherOfTurnsTogether(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"session", "scope"} {
		for _, connections := range []int{1, 2, 3, 8} {
			t.Run(fmt.Sprint(row, ", ", connections, " connections"), func(t *testing.T) {
				t.Parallel()
				if failed := besideHeldTogether(t, connections, row, false, func(s *agentstore.Store) adder { return addsTo(s) }); failed > 0 {
					t.Errorf("%d calls failed", failed)
				}
			})
		}
	}
}

// The harness finds that a transaction which waits with the rows that it has stops the
// others.
func TestNaiveTurnsTogetherStopOthers(t *testing.T) {
	t.Parallel()
	failed := besideHeldTogether(t, 8, "session", true, func(s *agentstore.Store) adder {
		return func(ctx context.Context, turns ...repo.Turn) error {
			return s.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { return addsTo(tx)(ctx, turns...) })
		}
	})
	if failed == 0 {
		t.Error("all calls succeeded: the harness does not catch a transaction that waits with rows")
	}
}

// Turns together whose context ends while one of their sessions is held are withdrawn, all
// of them.
func TestTurnsTogetherAreWithdrawn(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 4} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
			ids := newSessions(t, store, 2)
			release := hold(t, pgtest.NewPool(t, databaseURL), ids[1])
			withdrawn := 0
			for i := 0; i < 5 || withdrawn == 0 && i < 200; i++ { // in whatever step
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				awaitTried(t, store, int64(i%5), func() {
					go func() { ended <- second(store.Sessions().AppendTurns(ctx, turnsOf(ids...)...)) }()
				})
				cancel()
				err := await.Value(t, "turns that are withdrawn", ended)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				if !errors.Is(err, repo.ErrUnknownOutcome) { // it was not just being tried
					withdrawn++
				}
			}
			release()
			if withdrawn == 0 {
				t.Error("none was withdrawn")
			}
			if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids...)...); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if count := pgtest.CountDense(t, store, id); count != 1 {
					t.Errorf("%d messages, want 1", count)
				}
			}
		})
	}
}

// Turns together that got one of two held sessions do not wait for the other one with what
// they have.
func TestTurnsTogetherWaitWithNothing(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4})
	const callers = 8
	ids := newSessions(t, store, callers+2)
	free, first, second := ids[:callers], ids[callers], ids[callers+1]
	if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids...)...); err != nil { // the scopes exist
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	releaseSecond := sync.OnceFunc(hold(t, holder, second))
	defer releaseSecond()
	releaseFirst := sync.OnceFunc(hold(t, holder, first))
	defer releaseFirst()
	for _, id := range free {
		all.Go(func() {
			if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(id, first, second)...); err != nil {
				t.Error(err)
			}
		})
	}
	pgtest.AwaitLockWait(t, holder, 1)
	releaseFirst()
	pgtest.AwaitLockWait(t, holder, 1)
	for _, id := range ids[:callers+1] {
		if _, err := store.Sessions().Append(await.Context(t), id, user("alone")); err != nil {
			t.Errorf("an append to a session that is free: %v", err)
		}
	}
	releaseSecond()
	all.Wait()
	for i, id := range ids {
		want := []int64{3, callers + 2, callers + 1}[max(0, i+1-callers)]
		if count := pgtest.CountDense(t, store, id); count != want {
			t.Errorf("session %d has %d messages, want %d", i, count, want)
		}
	}
}

// Turns together of which one creates a session do not wait for a held one with the others.
func TestTurnsTogetherCreateWithNothing(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
	ids := newSessions(t, store, 2)
	turns := append(turnsOf(repo.NewID()), turnsOf(ids...)...)
	turns[0].Create = &repo.NewSession{Owner: "o"}
	release := sync.OnceFunc(hold(t, holder, ids[1]))
	defer release()
	added := make(chan error, 1)
	go func() {
		results, err := store.Sessions().AppendTurns(t.Context(), turns...)
		if err == nil && !results[0].Created {
			err = errors.New("the session was not created")
		}
		added <- err
	}()
	pgtest.AwaitLockWait(t, holder, 1)
	if _, err := store.Sessions().Append(await.Context(t), ids[0], user("alone")); err != nil {
		t.Errorf("an append to a session that is free: %v", err)
	}
	release()
	if err := <-added; err != nil {
		t.Error(err)
	}
	for i, id := range []repo.ID{ids[0], ids[1], turns[0].SessionID} {
		if count, want := pgtest.CountDense(t, store, id), []int64{2, 1, 1}[i]; count != want {
			t.Errorf("session %d has %d messages, want %d", i, count, want)
		}
	}
}

// Turns together that are behind an append to a held session, which is withdrawn, do not
// wait for it with another one.
func TestTurnsTogetherBehindWithdrawn(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
	ids := newSessions(t, store, 4)
	if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids...)...); err != nil {
		t.Fatal(err)
	}
	var all, withdrawing sync.WaitGroup
	defer all.Wait()
	releases := make([]func(), len(ids))
	for i, id := range ids {
		releases[i] = sync.OnceFunc(hold(t, holder, id))
		defer releases[i]()
	}
	withdrawn := func(id repo.ID) (withdraw func()) {
		ctx, cancel := context.WithCancel(t.Context())
		withdrawing.Go(func() { _, _ = store.Sessions().Append(ctx, id, user("withdrawn")) })
		return cancel
	}
	// The two connections that may wait do so for others.
	withdraw := []func(){withdrawn(ids[2]), withdrawn(ids[3])}
	pgtest.AwaitLockWait(t, store.Pool(), 2)
	withdraw = append(withdraw, withdrawn(ids[0]))
	awaitQueued(t, store, 1)
	awaitTried(t, store, 2, func() {
		all.Go(func() {
			if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids[:2]...)...); err != nil {
				t.Error(err)
			}
		})
	})
	for _, withdraw := range slices.Backward(withdraw) { // one of these connections is free
		withdraw()
	}
	withdrawing.Wait()
	pgtest.AwaitLockWait(t, store.Pool(), 1)
	releases[0]()
	for range 5 {
		if _, err := store.Sessions().Append(await.Context(t), ids[0], user("alone")); err != nil {
			t.Errorf("an append to a session that is free: %v", err)
		}
	}
}

// queueFor makes transactions of another process queue for a session, each of which then
// has it for some time, until the returned function is called. The server takes that time, so
// that a client that is late makes it no longer.
func queueFor(t *testing.T, pool *pgxpool.Pool, id repo.ID) (stop func()) {
	t.Helper()
	var all sync.WaitGroup
	var stopped atomic.Bool
	for range 3 {
		all.Go(func() {
			for !stopped.Load() {
				if _, err := pool.Exec(t.Context(), `WITH held AS MATERIALIZED (SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE)
					SELECT pg_sleep(0.03) FROM held`, uuidText(id)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		all.Wait()
	}
}

// Turns together get a session for which others queue always, when it is their turn. Those
// who follow it are told.
func TestTurnsTogetherQueue(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
	ids := newSessions(t, store, 2)
	listener := pgtest.Connect(t, databaseURL)
	channel := pgtest.Value[string](t, listener, `SELECT 'agentstore_' || 'session_counters'::regclass::oid
		FROM pg_advisory_lock_shared(x'61676e74'::integer, 'session_counters'::regclass::oid::integer)`)
	pgtest.Exec(t, listener, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	defer queueFor(t, pgtest.NewPool(t, pgtest.ReadCommitted(databaseURL)), ids[1])()
	ctx := await.Context(t)
	const calls = 5
	for call := range calls {
		if _, err := store.Sessions().AppendTurns(ctx, turnsOf(ids...)...); err != nil {
			t.Fatalf("call %d: %v", call, err)
		}
		if _, err := listener.WaitForNotification(ctx); err != nil {
			t.Fatalf("call %d was not announced: %v", call, err)
		}
	}
	for _, id := range ids {
		if count := pgtest.CountDense(t, store, id); count != calls {
			t.Errorf("%d messages, want %d", count, calls)
		}
	}
}

// With a lock timeout turns together that wait get an error that says so.
func TestLockTimeoutOfTurnsTogether(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 4} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			ids := newSessions(t, process(t, databaseURL), 2)
			// short: the session stays held, so it fires however late
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections, LockTimeout: 40 * time.Millisecond})
			defer hold(t, pgtest.NewPool(t, databaseURL), ids[1])()
			turns := turnsOf(ids...)
			turns[0].State = append(turns[0].State, plusOne("shared", "n"))
			if _, err := store.Sessions().AppendTurns(await.Context(t), turns...); !errors.Is(err, repo.ErrContention) {
				t.Errorf("%v, want %v", err, repo.ErrContention)
			}
		})
	}
}

// Turns together that wait at the same time are made together: many of them in a few
// round trips.
func TestTurnsTogetherShareGroups(t *testing.T) {
	t.Parallel()
	tracer := &roundTrips{}
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1, Tracer: tracer})
	others := pgtest.NewPool(t, databaseURL)
	const callers = 32
	ids := newSessions(t, store, callers+1)
	if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids...)...); err != nil { // the scopes exist
		t.Fatal(err)
	}
	release := stopWriters(t, others)
	before := tracer.count.Load()
	var all sync.WaitGroup
	add := func(ids ...repo.ID) {
		all.Go(func() {
			if _, err := store.Sessions().AppendTurns(t.Context(), turnsOf(ids...)...); err != nil {
				t.Error(err)
			}
		})
	}
	add(ids[0], ids[1])
	pgtest.AwaitLockWait(t, others, 1)
	for i := range callers {
		add(ids[i+1], ids[i]) // which shares a session with the next
	}
	awaitQueued(t, store, callers)
	release()
	all.Wait()
	if trips := tracer.count.Load() - before; trips > 10 {
		t.Errorf("%d calls took %d round trips", callers+1, trips)
	}
	for i, id := range ids {
		want := int64(3)
		switch i {
		case 1:
			want++
		case callers:
			want--
		}
		if count := pgtest.CountDense(t, store, id); count != want {
			t.Errorf("session %d has %d messages, want %d", i, count, want)
		}
	}
}

// Callers of two processes add to the same sessions in any order, together and alone. No
// call fails, and none is lost. The naive way locks the sessions in the order given.
func TestTurnsTogetherOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, writers, rounds = 2, 6, 15
	databaseURL := pgtest.NewDatabase(t)
	stores := make([]*agentstore.Store, processes)
	for i := range stores { // a pool each
		stores[i] = pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL), agentstore.Options{})
	}
	ids := newSessions(t, stores[0], 3)
	run := func(add func(store *agentstore.Store, worker, round int, ids ...repo.ID)) {
		var all sync.WaitGroup
		for p, store := range stores {
			for w := range writers {
				all.Go(func() {
					for round := range rounds {
						at := p + w + round
						chosen := []repo.ID{ids[at%3], ids[(at+1+w%2)%3]}
						add(store, w, round, chosen...)
					}
				})
			}
		}
		all.Wait()
	}
	run(func(store *agentstore.Store, worker, round int, ids ...repo.ID) {
		if worker == 0 { // an append and a turn of one session each
			if _, err := store.Sessions().Append(t.Context(), ids[0], user("alone")); err != nil {
				t.Error(err)
			}
			if _, err := store.Sessions().AppendTurn(t.Context(), turnsOf(ids[1])[0]); err != nil {
				t.Error(err)
			}
			return
		}
		turns := turnsOf(ids...)
		turns[round%2].State = append(turns[round%2].State, plusOne("shared", "n"))
		if _, err := store.Sessions().AppendTurns(t.Context(), turns...); err != nil {
			t.Error(err)
		}
	})
	count := int64(0)
	for _, id := range ids {
		count += pgtest.CountDense(t, stores[0], id)
	}
	if want := int64(processes * writers * rounds * 2); count != want {
		t.Errorf("%d messages, want %d", count, want)
	}
	if got, want := sumOf(t, stores[0], repo.Scope{Name: "shared"}, "n"), processes*(writers-1)*rounds; got != want {
		t.Errorf("the sum is %d, want %d", got, want)
	}
	var mu sync.Mutex
	failed := 0
	run(func(store *agentstore.Store, _, _ int, ids ...repo.ID) {
		if err := inOrderGiven(t.Context(), store, ids...); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed++
		}
	})
	if failed == 0 {
		t.Error("the naive way met no deadlock: the test does not show what it is for")
	}
}

// inOrderGiven appends to sessions in one transaction, which locks one after the other.
func inOrderGiven(ctx context.Context, store *agentstore.Store, ids ...repo.ID) error {
	return pgx.BeginFunc(ctx, store.Pool(), func(tx pgx.Tx) error {
		// short: after it the server looks for a deadlock, and goes on waiting if there is none
		if _, err := tx.Exec(ctx, "SET LOCAL deadlock_timeout = '5ms'"); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := postgres.Bind(tx).Sessions().Append(ctx, id, user("naive")); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // pace: a real program does something in between
		}
		return nil
	})
}

// A call may have MaxTurns sessions, in any order. Two calls with the same do not stop each
// other, and a session that is missing refuses all.
func TestManyTurnsTogether(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	pgtest.Exec(t, store.Pool(), `WITH made AS (INSERT INTO sessions (id) SELECT gen_random_uuid() FROM generate_series(1, $1) RETURNING id)
		INSERT INTO session_counters (session_id) SELECT id FROM made`, limits.MaxTurns)
	rows, err := store.Pool().Query(t.Context(), "SELECT id FROM sessions")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		t.Fatal(err)
	}
	turns := make([]repo.Turn, len(ids))
	for i, id := range ids {
		turns[i] = turnsOf(repo.ID(id))[0]
	}
	backwards := slices.Clone(turns)
	slices.Reverse(backwards)
	var all sync.WaitGroup
	for _, turns := range [][]repo.Turn{turns, backwards} {
		all.Go(func() {
			added, err := store.Sessions().AppendTurns(t.Context(), turns...)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range turns {
				if added[i].Messages[0].SessionID != turns[i].SessionID {
					t.Fatal("the results are in another order")
				}
			}
		})
	}
	all.Wait()
	missing := slices.Clone(turns)
	missing[len(missing)-1].SessionID = repo.NewID()
	if _, err := store.Sessions().AppendTurns(t.Context(), missing...); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("a missing session: %v", err)
	}
	if _, err := store.Sessions().AppendTurns(t.Context(), append(missing, turns[0])...); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("more than may be: %v", err)
	}
	if n := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM session_counters WHERE next_sequence = 2"); n != len(ids) {
		t.Errorf("%d sessions have two messages, want %d", n, len(ids))
	}
}
