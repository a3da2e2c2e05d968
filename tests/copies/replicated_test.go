package copies

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// A database is replicated logically, becomes the one that is written to, and is replicated
// to the first. Everything that is done to one arrives at the other, and no token or fence is
// given a second time.
func (s server) testReplicated(t *testing.T) {
	publisher, subscriber := s.newDatabase(t, "publisher"), s.newDatabase(t, "subscriber")
	store := pgtest.OpenStore(t, publisher, agentstore.Options{Migrate: true})
	tables.Fill(t, store)
	s.restore(t, subscriber, s.dump(t, publisher, "--schema-only", "--no-owner"))
	from, to := pgtest.Connect(t, publisher), pgtest.Connect(t, subscriber)
	replicate := func(from, to *pgx.Conn, name, publisher, options string) {
		pgtest.Exec(t, from, "CREATE PUBLICATION "+name+" FOR ALL TABLES WITH (publish_via_partition_root = true)")
		// Made by hand, because the two are databases of one server.
		pgtest.Exec(t, from, "SELECT pg_create_logical_replication_slot('"+name+"', 'pgoutput')")
		pgtest.Exec(t, to, "CREATE SUBSCRIPTION "+name+" CONNECTION '"+publisher+"' PUBLICATION "+name+" WITH (create_slot = false"+options+")")
	}
	end := func(from, to *pgx.Conn, name string) {
		pgtest.Unsubscribe(t, to, name)
		await.For(t, "the slot is free", func() bool {
			return pgtest.Value[bool](t, from, "SELECT NOT bool_or(active) FROM pg_replication_slots WHERE slot_name = $1", name)
		})
		pgtest.Exec(t, from, "SELECT pg_drop_replication_slot('"+name+"')")
	}
	replicate(from, to, "forth", publisher, "")

	use(t, store)
	arrived(t, publisher, subscriber)
	key := repo.NewLease{Key: repo.LeaseKey{Kind: "copied", Name: "lease"}, Owner: "first"}
	lease, err := store.Leases().Acquire(t.Context(), key)
	check(t, err)
	check(t, store.Leases().Release(t.Context(), lease))
	live := repo.NewStream{Key: "copied", Owner: "first"}
	stream, err := store.Streams().Open(t.Context(), live)
	check(t, err)
	check(t, store.Streams().Finish(t.Context(), stream))
	use(t, store)
	arrived(t, publisher, subscriber)

	end(from, to, "forth")
	replicate(to, from, "back", subscriber, ", copy_data = false")
	second := pgtest.OpenStore(t, subscriber, agentstore.Options{})
	key.Owner, live.Owner = "second", "second"
	if next, err := second.Leases().Acquire(t.Context(), key); err != nil || next.Fence <= lease.Fence {
		t.Errorf("after the token %d the copy gives %d, %v", lease.Fence, next.Fence, err)
	}
	if next, err := second.Streams().Open(t.Context(), live); err != nil || next.Fence <= stream.Fence {
		t.Errorf("after the fence %d the copy gives %d, %v", stream.Fence, next.Fence, err)
	}
	use(t, second)
	arrived(t, subscriber, publisher)
	end(to, from, "back")
	use(t, store)
}

// arrived waits until the subscriber has all that the publisher has.
func arrived(t *testing.T, publisher, subscriber string) {
	t.Helper()
	var different []string
	defer func() {
		if len(different) > 0 {
			t.Logf("the subscriber has other rows in %s", strings.Join(different, ", "))
		}
	}()
	await.For(t, "the subscriber has all", func() bool {
		different = tables.Different(contents(t, publisher, "public"), contents(t, subscriber, "public"))
		return len(different) == 0
	})
}
