package bench

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// message is of the usual size, 300 bytes.
func message() repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: strings.Repeat("ten bytes.", 30)}
}

func openStore(b *testing.B) *agentstore.Store {
	b.Helper()
	store, err := agentstore.Open(b.Context(), pgtest.NewDatabase(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		pgtest.CheckReturned(b, store.Pool())
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

func newSessions(b *testing.B, store repo.Repositories, count int) []repo.ID {
	b.Helper()
	ids := make([]repo.ID, count)
	for i := range ids {
		session, err := store.Sessions().Create(b.Context(), repo.NewSession{})
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = session.ID
	}
	return ids
}

// newLongSession makes a session with this many messages.
func newLongSession(b *testing.B, store *agentstore.Store, length int) repo.ID {
	b.Helper()
	id := newSessions(b, store, 1)[0]
	for _, sql := range []string{
		`INSERT INTO messages (session_id, sequence, id, role, content)
			SELECT $1, n, gen_random_uuid(), 'user', repeat('ten bytes.', 30) FROM generate_series(0, $2::bigint - 1) n`,
		`UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1`,
	} {
		if _, err := store.Pool().Exec(b.Context(), sql, pgtype.UUID{Bytes: id, Valid: true}, length); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := store.Pool().Exec(b.Context(), "VACUUM ANALYZE messages"); err != nil {
		b.Fatal(err)
	}
	return id
}

// together runs b.N times do, shared among writers.
func together(b *testing.B, writers int, do func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		all.Go(func() {
			for i := w; i < b.N; i += writers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}
