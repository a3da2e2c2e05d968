package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// delayed is a session, and a store whose next statement reaches the server only when
// the network is released. The store sees its connection end.
type delayed struct {
	network *delay
	store   *agentstore.Store
	direct  *agentstore.Store
	id      repo.ID
	pid     int32 // of the backend that receives the statement late
}

func newDelayed(t *testing.T, session repo.NewSession) *delayed {
	t.Helper()
	direct := pgtest.NewDatabase(t)
	network, through := newDelay(t, direct)
	l := &delayed{network: network, direct: pgtest.OpenStore(t, direct, agentstore.Options{})}
	l.store = pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1})
	created, err := l.store.Sessions().Create(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	l.id = created.ID
	// The statement is prepared now, so it is sent in one piece.
	if _, err := l.store.Sessions().AddUsage(t.Context(), l.id, repo.NewUsage{}); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Pool().QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&l.pid); err != nil {
		t.Fatal(err)
	}
	return l
}

// arrive releases the network and waits until the server has carried out the delayed
// statement.
func (l *delayed) arrive(t *testing.T) {
	t.Helper()
	close(l.network.release)
	awaitEnd(t, l.direct, l.pid)
}

// awaitEnd waits until the backend of a client that has gone has ended.
func awaitEnd(t *testing.T, store *agentstore.Store, pid int32) {
	t.Helper()
	await.For(t, "the late statement has ended", func() bool {
		return !pgtest.Value[bool](t, store.Pool(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid)
	})
}

func (l *delayed) usage(t *testing.T) repo.Usage {
	t.Helper()
	session, err := l.direct.Sessions().Get(t.Context(), l.id)
	if err != nil {
		t.Fatal(err)
	}
	return session.Usage
}

// The store itself retries a usage whose answer was lost. It counts once, whenever
// the first attempt arrives.
// Guarantee: Usage: An addition whose answer was lost counts once.
func TestLostUsageCountsOnce(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{true, false} {
		l := newDelayed(t, repo.NewSession{})
		add := repo.NewUsage{InputTokens: 2, Cost: 3}
		if given {
			add.ID = repo.NewID()
		}
		l.network.arm(l.store)
		got, err := l.store.Sessions().AddUsage(t.Context(), l.id, add)
		if l.network.armed.Load() {
			t.Fatal("nothing was kept")
		}
		want := repo.Usage{InputTokens: 2, Cost: 3}
		if err != nil || got != want {
			t.Errorf("given an id: %v: AddUsage gave %+v, %v", given, got, err)
		}
		l.arrive(t)
		if got := l.usage(t); got != want {
			t.Errorf("given an id: %v: the usage is %+v, want %+v", given, got, want)
		}
	}
}

// A refusal is final: an earlier attempt that arrives late, when the budget has room, adds nothing.
// Guarantee: Usage: A refusal by the budget is final.
func TestFirstAttemptOfUsageArrivesLate(t *testing.T) {
	t.Parallel()
	budget, more := repo.Cost(10), repo.Cost(20)
	l := newDelayed(t, repo.NewSession{Budget: &budget})
	if _, err := l.direct.Sessions().AddUsage(t.Context(), l.id, repo.NewUsage{Cost: 8}); err != nil {
		t.Fatal(err)
	}
	l.network.arm(l.store)
	_, err := l.store.Sessions().AddUsage(t.Context(), l.id, repo.NewUsage{ID: repo.NewID(), Cost: 6})
	if l.network.armed.Load() {
		t.Fatal("nothing was kept")
	}
	if _, err := l.direct.Sessions().Update(t.Context(), l.id, repo.SessionUpdate{Budget: &more}); err != nil {
		t.Fatal(err)
	}
	l.arrive(t)
	if got := l.usage(t); got.Cost != 8 || !errors.Is(err, repo.ErrLimit) {
		t.Errorf("the cost is %d, after %v", got.Cost, err)
	}
}

// counted makes many callers add one usage at once, and returns the total.
func counted(t *testing.T, store *agentstore.Store, add func(ctx context.Context, session, usage repo.ID) error) int64 {
	t.Helper()
	var total int64
	for range 10 {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		usage := repo.NewID()
		var running sync.WaitGroup
		start := make(chan struct{})
		for range 16 {
			running.Go(func() {
				<-start
				if err := add(t.Context(), session.ID, usage); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		running.Wait()
		stored, err := store.Sessions().Get(t.Context(), session.ID)
		if err != nil {
			t.Fatal(err)
		}
		total += stored.Usage.InputTokens
	}
	return total
}

// A usage that many callers add at once counts once. An implementation that looks for
// the id before it adds counts it several times. The harness finds that.
// Guarantee: Usage: A usage with an id counts once.
func TestUsageCountsOnce(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 16})
	if got := counted(t, store, func(ctx context.Context, session, usage repo.ID) error {
		_, err := store.Sessions().AddUsage(ctx, session, repo.NewUsage{ID: usage, InputTokens: 1})
		return err
	}); got != 10 {
		t.Errorf("10 usages count %d", got)
	}
	pool := naivePool(t, store)
	naive := counted(t, store, func(ctx context.Context, session, usage repo.ID) error {
		key, id := pgtype.UUID{Bytes: session, Valid: true}, pgtype.UUID{Bytes: usage, Valid: true}
		var known bool
		if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM session_usages WHERE session_id = $1 AND id = $2)", key, id).Scan(&known); err != nil || known {
			return err
		}
		_, err := pool.Exec(ctx, `WITH added AS (UPDATE sessions SET input_tokens = input_tokens + 1 WHERE id = $1 RETURNING id)
			INSERT INTO session_usages SELECT id, $2, 1, 0, 0 FROM added ON CONFLICT DO NOTHING`, key, id)
		return err
	})
	t.Logf("naive: 10 usages count %d", naive)
	if naive <= 10 {
		t.Error("the harness does not catch the naive implementation")
	}
}

// duringTheWait adds a usage that waits for its session, while the transaction for
// which it waits changes the session.
func duringTheWait(t *testing.T, session repo.NewSession, add repo.NewUsage, then func(tx repo.Repositories, id repo.ID) error) (repo.Usage, error) {
	t.Helper()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	created, err := store.Sessions().Create(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	var got repo.Usage
	added := make(chan error, 1)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if err := then(tx, created.ID); err != nil {
			return err
		}
		go func() {
			var err error
			got, err = store.Sessions().AddUsage(t.Context(), created.ID, add)
			added <- err
		}()
		pgtest.AwaitLockWait(t, store.Pool(), 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err = <-added
	return got, err
}

// If the id was stored while the statement waited, and with other amounts, it is the
// id of another usage.
func TestUsageStoredDuringTheWait(t *testing.T) {
	t.Parallel()
	add := repo.NewUsage{ID: repo.NewID(), InputTokens: 1}
	for tokens, want := range map[int64]error{1: nil, 2: repo.ErrConflict} {
		got, err := duringTheWait(t, repo.NewSession{}, add, func(tx repo.Repositories, id repo.ID) error {
			_, err := tx.Sessions().AddUsage(t.Context(), id, repo.NewUsage{ID: add.ID, InputTokens: tokens})
			return err
		})
		if !errors.Is(err, want) || want == nil && got.InputTokens != 1 {
			t.Errorf("%d tokens under its id: %+v, %v", tokens, got, err)
		}
	}
}

// If the budget was raised while the usage waited, the new budget counts.
func TestBudgetRaisedDuringTheWait(t *testing.T) {
	t.Parallel()
	budget, more := repo.Cost(10), repo.Cost(20)
	got, err := duringTheWait(t, repo.NewSession{Budget: &budget}, repo.NewUsage{Cost: 15}, func(tx repo.Repositories, id repo.ID) error {
		_, err := tx.Sessions().Update(t.Context(), id, repo.SessionUpdate{Budget: &more})
		return err
	})
	if err != nil || got.Cost != 15 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Sessions that an open transaction has updated delay no usage of others, and theirs is added afterwards.
func TestUpdatedSessionsStopNoOtherUsage(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	updated, others := newSessions(t, store, 4), newSessions(t, store, 16)
	add := func(ctx context.Context, id repo.ID) error {
		_, err := store.Sessions().AddUsage(ctx, id, repo.NewUsage{Cost: 1})
		return err
	}
	var waiting sync.WaitGroup
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		budget := repo.Cost(10)
		for _, id := range updated {
			if _, err := tx.Sessions().Update(ctx, id, repo.SessionUpdate{Budget: &budget}); err != nil {
				return err
			}
			waiting.Go(func() {
				if err := add(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		pgtest.AwaitLockWait(t, store.Pool(), 1)
		for _, id := range others {
			if err := add(await.Context(t), id); err != nil {
				t.Errorf("another session's: %v", err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	for _, id := range slices.Concat(updated, others) {
		if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.Usage.Cost != 1 {
			t.Errorf("%+v, %v", session.Usage, err)
		}
	}
}
