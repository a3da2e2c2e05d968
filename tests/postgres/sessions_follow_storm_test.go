package postgres

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// storm is a crowd that reads sessions from their begin.
type storm struct {
	ids      []repo.ID
	messages int64
	read     atomic.Int64 // messages
}

// newStorm creates sessions with messages, whose content and metadata are SQL expressions.
func newStorm(t *testing.T, store repo.Store, conn pgtest.Database, sessions, messages int, content, metadata string) *storm {
	t.Helper()
	s := &storm{messages: int64(messages)}
	for range sessions {
		s.ids = append(s.ids, pgtest.NewSession(t, store))
	}
	pgtest.Exec(t, conn, `INSERT INTO messages (session_id, sequence, id, role, content, metadata)
		SELECT c.session_id, n, gen_random_uuid(), 'user', m.content, m.metadata::json
		FROM (SELECT `+content+` AS content, `+metadata+` AS metadata) AS m, session_counters c, generate_series(0, $1::bigint - 1) n`, messages)
	pgtest.Exec(t, conn, "UPDATE session_counters SET next_sequence = $1", messages)
	return s
}

// begin has each session followed to its end.
func (s *storm) begin(t *testing.T, store repo.Store) (all *sync.WaitGroup) {
	t.Helper()
	all = &sync.WaitGroup{}
	for _, id := range s.ids {
		all.Go(func() {
			for m, err := range store.Sessions().Follow(t.Context(), id, 0) {
				if err != nil {
					t.Error(err)
					return
				}
				s.read.Add(1)
				if m.Sequence == s.messages-1 {
					return
				}
			}
		})
	}
	return all
}

// Followers that catch up do not delay an up-to-date one: what they read while a message of its
// session is on the way is a small part of all.
// Guarantee: Following: Followers that catch up delay none that is up to date.
func TestFollowBesideStorm(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := process(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 8 })
	const sessions, messages = 100, 200
	s := newStorm(t, store, pgtest.Connect(t, databaseURL), sessions, messages, "(SELECT string_agg(md5(x::text), '') FROM generate_series(1, 125) x)", "'{}'")
	id := pgtest.NewSession(t, store)
	live := follow(t, store, id, 0)
	write(t, store, id)
	live.wants(t, 0)
	var meanwhile []int64
	next := int64(1)
	for range 5 { // this goroutine may be late, too
		s.read.Store(0)
		meanwhile = nil
		all := s.begin(t, store)
		for round := int64(1); s.read.Load() < sessions*messages*9/10; round++ {
			await.For(t, "the others go on", func() bool { return s.read.Load() >= round*sessions*messages/50 })
			write(t, store, id)
			begun := s.read.Load()
			live.wants(t, next)
			next++
			meanwhile = append(meanwhile, s.read.Load()-begun)
		}
		all.Wait()
		slices.Sort(meanwhile)
		if len(meanwhile) >= 10 && meanwhile[len(meanwhile)/2] <= sessions*messages/20 {
			return
		}
	}
	t.Errorf("%d messages came, and others read so much meanwhile: %v", len(meanwhile), meanwhile)
}

// A read for followers costs what it answers, however large the values are that it leaves for
// the next ones: together they read each value once or twice.
func TestFollowLargeMetadata(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := process(t, databaseURL)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "ALTER TABLE messages SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)")
	// What the transaction itself has read it knows exactly. What others have read is known when their connections have ended.
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := func() int64 {
		return pgtest.Value[int64](t, tx, "SELECT pg_stat_get_xact_blocks_fetched("+messagesToast+")")
	}
	s := newStorm(t, store, tx, 32, 4, "'x'", `'{"k":"' || repeat('x', (1 << 20) - 8) || '"}'`)
	before := own()
	pgtest.Exec(t, tx, "SELECT sum(octet_length(metadata::text)) FROM messages")
	after := own()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "application_name", "reader"))
	followed := pgtest.OpenPool(t, reader, agentstore.Options{})
	s.begin(t, followed).Wait()
	if err := followed.Close(); err != nil {
		t.Error(err)
	}
	reader.Close()
	var read int64
	all := after - before
	await.For(t, "the readers have ended, and said what they have read", func() bool {
		read = pgtest.Value[int64](t, store.Pool(), "SELECT pg_stat_get_blocks_fetched("+messagesToast+")") - after
		return read >= all && pgtest.Value[int](t, store.Pool(), "SELECT count(*) "+ofReader) == 0
	})
	if t.Logf("%d blocks were read, and all have %d", read, all); all == 0 || read > 2*all {
		t.Errorf("%d blocks were read, and all have %d", read, all)
	}
}

// A session that cannot be read fails alone: a new follower gets the error, and an earlier one
// waits until it can be read again, while the others go on.
func TestFollowBesideBad(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	for _, sql := range []string{
		"CREATE TABLE bad (id uuid)",
		`CREATE FUNCTION passes(id uuid) RETURNS boolean LANGUAGE plpgsql AS
			$$BEGIN IF EXISTS (SELECT FROM bad WHERE bad.id = passes.id) THEN RAISE query_canceled; END IF; RETURN true; END$$`,
		"ALTER TABLE messages RENAME TO all_messages",
		"CREATE VIEW messages AS SELECT * FROM all_messages m WHERE passes(m.session_id)",
	} {
		pgtest.Exec(t, conn, sql)
	}
	writer, reader := process(t, databaseURL), process(t, databaseURL)
	var ids []repo.ID
	var all []*tailing
	for range 20 {
		ids = append(ids, pgtest.NewSession(t, writer))
		all = append(all, follow(t, reader, ids[len(ids)-1], 0))
	}
	round := func(sequence int64, except ...int) {
		for _, id := range ids {
			write(t, writer, id)
		}
		for i, f := range all {
			if !slices.Contains(except, i) {
				f.wants(t, sequence)
			}
		}
	}
	round(0)
	pgtest.Exec(t, conn, "INSERT INTO bad VALUES ($1)", [16]byte(ids[7]))
	for sequence := range int64(5) {
		round(1+sequence, 7)
	}
	if err := <-follow(t, reader, ids[7], 0).ended; !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("following it began with %v", err)
	}
	round(6, 7)
	pgtest.Exec(t, conn, "DELETE FROM bad")
	all[7].wants(t, 1, 2, 3, 4, 5, 6)
}
