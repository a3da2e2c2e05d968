package postgres

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
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

// Those who catch up do not keep one waiting who is up to date: what they read while a message of
// its session is on the way is a small part of all.
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
	all := s.begin(t, store)
	var meanwhile []int64
	for next := int64(1); s.read.Load() < sessions*messages*9/10; next++ {
		write(t, store, id)
		begun := s.read.Load()
		live.wants(t, next)
		meanwhile = append(meanwhile, s.read.Load()-begun)
		time.Sleep(10 * time.Millisecond)
	}
	all.Wait()
	slices.Sort(meanwhile)
	t.Logf("%d messages came; while one was on the way, others read %d (median), at most %d, of %d",
		len(meanwhile), meanwhile[len(meanwhile)/2], meanwhile[len(meanwhile)-1], sessions*messages)
	if len(meanwhile) < 10 || meanwhile[len(meanwhile)/2] > sessions*messages/20 {
		t.Errorf("%d messages came, and others read so much meanwhile: %v", len(meanwhile), meanwhile)
	}
}

// A read for followers costs what it answers, however large the values are that it leaves for
// the next ones: together they read each value once or twice. So with a timeout that is enough for
// one, nobody gets an error.
func TestFollowLargeMetadata(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := process(t, databaseURL)
	conn := pgtest.Connect(t, databaseURL)
	s := newStorm(t, store, conn, 32, 4, "'x'", `'{"k":"' || repeat('x', (1 << 20) - 8) || '"}'`)
	count := func() int64 {
		time.Sleep(1200 * time.Millisecond) // until a connection that goes on says what it has read
		pgtest.Exec(t, conn, "SELECT")
		time.Sleep(600 * time.Millisecond)
		return pgtest.Value[int64](t, conn, "SELECT pg_stat_get_blocks_fetched("+messagesToast+")")
	}
	before := count()
	pgtest.Exec(t, conn, "SELECT sum(octet_length(metadata::text)) FROM messages")
	all := count() - before
	reader := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "statement_timeout", "5000"))
	followed := pgtest.OpenPool(t, reader, agentstore.Options{})
	begun := time.Now()
	s.begin(t, followed).Wait()
	took := time.Since(begun)
	if err := followed.Close(); err != nil {
		t.Error(err)
	}
	reader.Close()
	read := count() - before - all
	t.Logf("%d messages of 1 MiB came within %v, for which %d blocks were read, and %d for all once", s.read.Load(), took, read, all)
	if all == 0 || read > 2*all {
		t.Errorf("%d blocks were read, and all have %d", read, all)
	}
}

// A session that cannot be read fails alone: who begins to follow it gets the error, and who does
// already waits until it can be read again, while the others go on.
func TestFollowBesideBad(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	for _, sql := range []string{
		"CREATE TABLE bad (id uuid)",
		`CREATE FUNCTION passes(id uuid) RETURNS boolean LANGUAGE plpgsql AS
			$$BEGIN PERFORM pg_sleep(10) FROM bad WHERE bad.id = passes.id; RETURN true; END$$`,
		"ALTER TABLE messages RENAME TO all_messages",
		"CREATE VIEW messages AS SELECT * FROM all_messages m WHERE passes(m.session_id)",
	} {
		pgtest.Exec(t, conn, sql)
	}
	writer, reader := process(t, databaseURL), process(t, pgtest.WithParameter(databaseURL, "statement_timeout", "1000"))
	var ids []repo.ID
	var all []*tailing
	for range 20 {
		ids = append(ids, pgtest.NewSession(t, writer))
		all = append(all, follow(t, reader, ids[len(ids)-1], 0))
	}
	round := func(sequence int64, except ...int) (longest time.Duration) {
		for _, id := range ids {
			write(t, writer, id)
		}
		for i, f := range all {
			if !slices.Contains(except, i) {
				longest = max(longest, f.wants(t, sequence))
			}
		}
		return longest
	}
	round(0)
	pgtest.Exec(t, conn, "INSERT INTO bad VALUES ($1)", [16]byte(ids[7]))
	for sequence := range int64(5) {
		t.Logf("messages came to the others within %v", round(1+sequence, 7))
	}
	if err := <-follow(t, reader, ids[7], 0).ended; !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("following it began with %v", err)
	}
	round(6, 7)
	pgtest.Exec(t, conn, "DELETE FROM bad")
	all[7].wants(t, 1, 2, 3, 4, 5, 6)
}
