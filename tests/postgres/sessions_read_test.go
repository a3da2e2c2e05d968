package postgres

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// blocksRead returns how many blocks of a relation a read fetches, from wherever, in a
// transaction of its own.
func blocksRead(t *testing.T, pool *pgxpool.Pool, relation string, read func(tx pgx.Tx)) (blocks int64) {
	t.Helper()
	count := func(tx pgx.Tx) int64 {
		return pgtest.Value[int64](t, tx, "SELECT pg_stat_get_xact_blocks_fetched("+relation+")")
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		read(tx) // also reads what planning needs
		before := count(tx)
		read(tx)
		blocks = count(tx) - before
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

const (
	messagesTable = "'messages'::regclass"
	messagesKey   = "'messages_pkey'::regclass"
	messagesToast = "(SELECT reltoastrelid FROM pg_class WHERE oid = 'messages'::regclass)"
)

// Since finds its place in a long session without reading what is before or after it.
func TestReadSinceReadsFewBlocks(t *testing.T) {
	t.Parallel()
	const count = 50_000
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pgtest.Exec(t, pool, `
		INSERT INTO messages (session_id, sequence, id, role, content, created_at)
		SELECT c.session_id, n, gen_random_uuid(), 'user', 'content', '2026-01-01 00:00:00+00'::timestamptz + make_interval(secs => n / 10)
		FROM session_counters c, generate_series(0, `+fmt.Sprint(count-1)+`) n WHERE c.session_id = '`+id.String()+`'`)
	pgtest.Exec(t, pool, "UPDATE session_counters SET next_sequence = "+fmt.Sprint(count))
	pgtest.Exec(t, pool, "ANALYZE")

	for second := range int64(count / 10) {
		if second%997 > 0 && second != count/10-1 {
			continue
		}
		for name, ask := range map[string]repo.ReadSessions{"first": {First: 20}, "last": {Last: count / 10}} {
			ask.IDs, ask.Since = []repo.ID{id}, begin.Add(time.Duration(second)*time.Second)
			var total int64
			for _, relation := range []string{messagesTable, messagesKey} {
				total += blocksRead(t, pool, relation, func(tx pgx.Tx) {
					snapshot, err := postgres.Bind(tx).Sessions().Read(t.Context(), ask)
					if err != nil {
						t.Fatal(err)
					}
					messages := snapshot.Sessions[0].Messages
					if first, want := messages[0].Sequence, max(10*second, int64(count-ask.Last)*min(1, int64(ask.Last))); first != want {
						t.Fatalf("%s: since second %d: the first message is %d, want %d", name, second, first, want)
					}
				})
			}
			// 16 steps with 4 blocks each, and the messages themselves.
			if most := int64(100); name == "first" && total > most {
				t.Errorf("since second %d: %d blocks, more than %d", second, total, most)
			}
		}
	}
	scanned := blocksRead(t, pool, messagesTable, func(tx pgx.Tx) {
		pgtest.Exec(t, tx, "SELECT FROM messages WHERE session_id = $1 AND created_at >= $2 ORDER BY sequence LIMIT 20", id.String(), begin.Add(4500*time.Second))
	})
	if scanned < 400 {
		t.Errorf("a scan for the same reads %d blocks: the test would not notice one", scanned)
	}
}

// What is left out is not read where it is stored out of line, and no message is read if
// none is asked for.
func TestReadLeavesOutWhatIsNotAskedFor(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	random := make([]byte, 100_000)
	_, _ = rand.Read(random)
	withContent, withPayload := user(hex.EncodeToString(random)), user("short")
	withPayload.Payload = random
	if _, err := store.Sessions().Append(t.Context(), id, withContent, withPayload); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		relation string
		ask      repo.ReadSessions
		none     bool
	}{
		{messagesToast, repo.ReadSessions{First: 2, WithoutContent: true, WithoutPayload: true}, true},
		{messagesToast, repo.ReadSessions{First: 1, WithoutContent: true}, true},
		{messagesToast, repo.ReadSessions{Last: 1, WithoutPayload: true}, true},
		{messagesToast, repo.ReadSessions{First: 1, WithoutPayload: true}, false},
		{messagesToast, repo.ReadSessions{Last: 1, WithoutContent: true}, false},
		{messagesTable, repo.ReadSessions{}, true},
		{messagesKey, repo.ReadSessions{}, true},
		{messagesTable, repo.ReadSessions{First: 1}, false},
		{messagesKey, repo.ReadSessions{First: 1}, false},
	} {
		test.ask.IDs = []repo.ID{id}
		blocks := blocksRead(t, pool, test.relation, func(tx pgx.Tx) {
			if _, err := postgres.Bind(tx).Sessions().Read(t.Context(), test.ask); err != nil {
				t.Fatal(err)
			}
		})
		if (blocks == 0) != test.none {
			test.ask.IDs = nil
			t.Errorf("%+v reads %d blocks of %s", test.ask, blocks, test.relation)
		}
	}
}

// Of metadata that are stored compressed, no more are read than belong to the snapshot.
func TestReadStopsAtItsBound(t *testing.T) {
	t.Parallel()
	const count, fitting = 60, limits.MaxReadBytes / repo.MaxMetadataBytes
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	pgtest.Exec(t, pool, fmt.Sprintf(`
		INSERT INTO messages (session_id, sequence, id, role, content, metadata)
		SELECT c.session_id, n, gen_random_uuid(), 'user', 'x', ('{"x":"' || repeat('x', %d) || '"}')::json
		FROM session_counters c, generate_series(0, %d) n WHERE c.session_id = $1`, repo.MaxMetadataBytes-8, count-1), id.String())
	pgtest.Exec(t, pool, "UPDATE session_counters SET next_sequence = $1", count)
	read := func(ask repo.ReadSessions) int64 {
		ask.IDs = []repo.ID{id}
		return blocksRead(t, pool, messagesToast, func(tx pgx.Tx) {
			snapshot, err := postgres.Bind(tx).Sessions().Read(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			got := snapshot.Sessions[0]
			if len(got.Messages) != fitting || got.Cut != (max(ask.First, ask.Last) > fitting) {
				t.Fatalf("First %d, Last %d: %d messages, cut: %t", ask.First, ask.Last, len(got.Messages), got.Cut)
			}
			if first, want := got.Messages[0].Sequence, int64(count-fitting); ask.Last > 0 && first != want {
				t.Errorf("Last %d: the first message is %d, want %d", ask.Last, first, want)
			}
		})
	}
	least := read(repo.ReadSessions{First: fitting})
	for _, ask := range []repo.ReadSessions{{First: count}, {Last: fitting}, {Last: count}, {First: limits.MaxReadMessages}, {Last: limits.MaxReadMessages}} {
		if blocks := read(ask); blocks > least+least/4 {
			t.Errorf("First %d, Last %d: %d blocks, and %d for what belongs to it", ask.First, ask.Last, blocks, least)
		}
	}
	all := blocksRead(t, pool, messagesToast, func(tx pgx.Tx) {
		pgtest.Exec(t, tx, "SELECT sum(octet_length(metadata::text)) FROM messages")
	})
	if all <= least+least/4 {
		t.Errorf("the sizes of all read %d blocks: the test would not notice it", all)
	}
}

// A read is planned once for all, as an append is, whatever is asked for.
func TestReadIsPlannedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := newUnattended(t)
	for _, ask := range []repo.ReadSessions{
		{},
		{Last: 20},
		{First: 20, From: 5},
		{First: 10, WithoutContent: true},
		{Last: 1, Since: time.Now()},
		{Last: 20, State: true, Scopes: []string{"a", "b"}},
		{IDs: make([]repo.ID, 2), Last: 20},
		{IDs: make([]repo.ID, 2), First: 20, Since: time.Now(), State: true},
	} {
		pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["plan_cache_mode"] = "auto" // whatever the server's is
		})
		store := pgtest.OpenPool(t, pool, agentstore.Options{})
		ask.IDs = append(ask.IDs, pgtest.NewSession(t, store))
		for range 20 {
			if _, err := store.Sessions().Read(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
		sent := []string{"SessionReadHeads "}
		switch {
		case !ask.Since.IsZero():
			sent = append(sent, "SessionReadPath ")
		case ask.Last > 0 || ask.First > 0:
			sent = append(sent, "SessionReadRanges ")
		}
		if ask.State {
			sent = append(sent, "SessionReadState ")
		}
		for _, name := range sent {
			if wantPlannedOnce(t, pool, name); t.Failed() {
				t.Fatalf("%s: %+v", name, ask)
			}
		}
	}
}
