package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// process opens a store as another process would have it: with a pool of its own.
func process(t *testing.T, databaseURL string, configure ...func(*pgxpool.Config)) *agentstore.Store {
	t.Helper()
	return pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL, configure...), agentstore.Options{})
}

// tailing follows a session in a goroutine.
type tailing struct {
	messages chan repo.Message
	ended    chan error
}

func follow(t *testing.T, store *agentstore.Store, id repo.ID, from int64) *tailing {
	t.Helper()
	f := &tailing{make(chan repo.Message, 10_000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for message, err := range store.Sessions().Follow(ctx, id, from) {
			if err != nil {
				f.ended <- err
				close(f.messages)
				return
			}
			f.messages <- message
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return f
}

// wants waits for the messages with these sequences.
func (f *tailing) wants(t *testing.T, sequences ...int64) {
	t.Helper()
	for _, want := range sequences {
		message := await.Value(t, fmt.Sprintf("message %d", want), f.messages)
		if message.ID.IsZero() { // it is closed
			t.Fatalf("Follow ended with %v, want message %d", <-f.ended, want)
		}
		if message.Sequence != want {
			t.Fatalf("message %d came, want %d", message.Sequence, want)
		}
	}
}

// withoutPoll tries what comes by a poll at the latest, until it has come thrice without one. A poll may always be
// meanwhile, and on a busy machine it often is: hence the tries.
func withoutPoll(t *testing.T, polls *namedStatements, try func()) {
	t.Helper()
	without := 0
	for range 50 {
		before := polls.count.Load()
		if try(); polls.count.Load() == before {
			without++
		}
		if without == 3 {
			return
		}
	}
	t.Errorf("it came %d times of 50 without a poll", without)
}

const listeners = `SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND query LIKE 'listen "agentstore%'`

// awaitListeners waits until so many connections listen.
func awaitListeners(t *testing.T, conn pgtest.Database, count int) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d connections listen", count), func() bool {
		return pgtest.Value[int](t, conn, listeners) == count
	})
}

func write(t *testing.T, store repo.Repositories, id repo.ID) {
	t.Helper()
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
		t.Fatal(err)
	}
}

// A message that another process appends is announced: it comes without a poll. Without
// listeners nothing is announced, and without followers there are no listeners.
func TestFollowOtherProcess(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	tracer := &claimTracer{polls: namedStatements{name: "SessionListMoved"}}
	writer, reader := process(t, databaseURL), process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	id := pgtest.NewSession(t, writer)
	write(t, writer, id)
	awaitListeners(t, conn, 0)
	f, other := follow(t, reader, id, 0), follow(t, reader, pgtest.NewSession(t, writer), 0)
	f.wants(t, 0)
	awaitListeners(t, conn, 1)
	next := int64(0)
	withoutPoll(t, &tracer.polls, func() {
		write(t, writer, id)
		next++
		f.wants(t, next)
	})
	select {
	case m := <-other.messages:
		t.Errorf("message %d came of another session", m.Sequence)
	default:
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	for _, f := range []*tailing{f, other} {
		if err := <-f.ended; !errors.Is(err, repo.ErrClosed) {
			t.Errorf("Follow ended with %v", err)
		}
	}
	awaitListeners(t, conn, 0)
}

// What is committed in a transaction of the caller's is not announced, and found all the
// same. So is what a process left behind that died.
func TestFollowUnannounced(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	reader := process(t, databaseURL)
	id := pgtest.NewSession(t, reader)
	f := follow(t, reader, id, 0)
	for i := range int64(3) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		write(t, postgres.Bind(tx), id)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.wants(t, i)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it changes nothing
	for _, err := range postgres.Bind(tx).Sessions().Follow(t.Context(), id, 0) {
		if invalid, ok := errors.AsType[*repo.InvalidError](err); !ok || invalid.Field != "transaction" {
			t.Errorf("Follow in a transaction: %v", err)
		}
	}
	pgtest.Exec(t, pool, "DELETE FROM sessions WHERE id = $1", [16]byte(id))
	if err := <-f.ended; !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the session was deleted, and Follow ended with %v", err)
	}
}

// The listener's connection is ended again and again, and replaced. Nothing is missed.
func TestFollowListenerLost(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	writer, reader := process(t, databaseURL), process(t, databaseURL)
	id := pgtest.NewSession(t, writer)
	f := follow(t, reader, id, 0)
	next := int64(0)
	for range pgtest.Choose(10, 3) {
		awaitListeners(t, conn, 1)
		pgtest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'listen "agentstore%'`)
		for range 3 {
			write(t, writer, id)
			f.wants(t, next)
			next++
		}
	}
}

const ofReader = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'reader'"

// All of the reader's connections are ended again and again, while messages come.
func TestFollowConnectionsLost(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	writer := process(t, databaseURL)
	reader := process(t, pgtest.WithParameter(databaseURL, "application_name", "reader"))
	var all []*tailing
	var ids []repo.ID
	for i := range 8 {
		if i%2 == 0 {
			ids = append(ids, pgtest.NewSession(t, writer))
		}
		all = append(all, follow(t, reader, ids[i/2], 0))
	}
	for _, id := range ids {
		write(t, writer, id)
	}
	for _, f := range all {
		f.wants(t, 0) // it has begun: before that it would return an error
	}
	stop := make(chan struct{})
	var striking sync.WaitGroup
	striking.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // pace: some messages come in between
			}
			pgtest.Exec(t, conn, "SELECT pg_terminate_backend(pid) "+ofReader)
		}
	})
	messages := pgtest.Choose(150, 50)
	for range messages {
		for _, id := range ids {
			write(t, writer, id)
		}
	}
	close(stop)
	striking.Wait()
	for _, f := range all {
		for sequence := range int64(messages) {
			f.wants(t, 1+sequence)
		}
	}
}

// A connection of the pool that was lost meanwhile is no reason not to begin.
func TestFollowBegins(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	reader := process(t, pgtest.WithParameter(databaseURL, "application_name", "reader"), func(c *pgxpool.Config) {
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	// Another one writes, so that the reader sends nothing in the background.
	writer := process(t, databaseURL)
	id := pgtest.NewSession(t, writer)
	write(t, writer, id)
	if _, err := reader.Sessions().Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await.For(t, "the connections are lost", func() bool {
		return pgtest.Value[int](t, conn, "SELECT count(pg_terminate_backend(pid)) "+ofReader) == 0
	})
	follow(t, reader, id, 0).wants(t, 0)
}

// The pool may be the caller's own, which takes notifications of its own with it.
func TestFollowOwnPool(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	writer := process(t, databaseURL)
	reader := process(t, databaseURL, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return second(conn.Exec(ctx, "LISTEN own")) }
	})
	id := pgtest.NewSession(t, writer)
	f := follow(t, reader, id, 0)
	awaitListeners(t, conn, 1)
	for i := range int64(5) {
		pgtest.Exec(t, conn, "NOTIFY own, 'news'")
		write(t, writer, id)
		f.wants(t, i)
	}
}

// A session that had no messages is deleted, and another one has its key.
func TestFollowAnother(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	writer := process(t, databaseURL)
	reads := &readTracer{}
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = reads })
	created, err := writer.Sessions().Create(t.Context(), repo.NewSession{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	id := created.ID
	f := follow(t, pgtest.OpenPool(t, pool, agentstore.Options{}), id, 0)
	await.For(t, "it was read", func() bool { return reads.count() > 0 && pool.Stat().AcquiredConns() == 0 })
	if err := writer.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Delete(ctx, id); err != nil {
			return err
		}
		second, err := tx.Sessions().Create(ctx, repo.NewSession{Key: "k"})
		if err == nil {
			write(t, tx, second.ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if m := await.Value(t, "the end", f.messages); !m.ID.IsZero() {
		t.Fatalf("message %d of another session came", m.Sequence)
	}
	if _, ok := errors.AsType[*repo.NotFoundError](<-f.ended); !ok {
		t.Error("Follow ended, and not because the session is gone")
	}
}

// A pool of one connection is enough for followers, writers and announcements. While it
// is in use, they wait.
func TestFollowOneConnection(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	one := func(c *pgxpool.Config) { c.MaxConns = 1 }
	writer, reader := process(t, databaseURL, one), process(t, databaseURL, one)
	id := pgtest.NewSession(t, writer)
	var all []*tailing
	for range 20 {
		all = append(all, follow(t, reader, id, 0), follow(t, writer, id, 0))
	}
	next := int64(0)
	for range 10 {
		write(t, writer, id)
		write(t, reader, id)
		for _, f := range all {
			f.wants(t, next, next+1)
		}
		next += 2
	}
	if err := reader.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		write(t, tx, id)
		write(t, tx, id)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		f.wants(t, next, next+1)
	}
}

// Stores in several schemas of a database have channels of their own.
func TestFollowInSchemas(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	open := func(name string) *agentstore.Store {
		return pgtest.OpenStore(t, databaseURL, agentstore.Options{Schema: name, Migrate: true})
	}
	first, second := open("first"), open("second")
	id := repo.NewID()
	var all []*tailing
	for _, store := range []*agentstore.Store{first, second} {
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{ID: id}); err != nil {
			t.Fatal(err)
		}
		all = append(all, follow(t, store, id, 0))
	}
	conn := pgtest.Connect(t, databaseURL)
	awaitListeners(t, conn, 2)
	if got := pgtest.Value[int](t, conn, `SELECT count(DISTINCT query) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'listen "agentstore%'`); got != 2 {
		t.Errorf("two schemas have %d channels", got)
	}
	for i := range int64(5) {
		write(t, first, id)
		all[0].wants(t, i)
	}
	write(t, second, id)
	all[1].wants(t, 0)
	if got := len(all[1].messages); got != 0 {
		t.Errorf("%d messages of the other schema came", got)
	}
}

// A hundred followers of one session have each message read once, and share the reads.
func TestFollowReadsOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	reads := &readTracer{}
	writer, reader := process(t, databaseURL), process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = reads })
	id := pgtest.NewSession(t, writer)
	var all []*tailing
	for range 100 {
		all = append(all, follow(t, reader, id, 0))
	}
	write(t, writer, id)
	for _, f := range all {
		f.wants(t, 0)
	}
	before := reads.count()
	const messages = 50
	for i := range int64(messages) {
		write(t, writer, id)
		for _, f := range all {
			f.wants(t, 1+i)
		}
	}
	// One or two for each message: the second when a poll looks at the same moment.
	if got := reads.count() - before; got > 2*messages+20 {
		t.Errorf("%d reads of %d messages for %d followers", got, messages, len(all))
	}
}
