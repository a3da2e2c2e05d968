package postgres

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// writesOf returns what the committers of a store have to do together.
func writesOf(store *agentstore.Store) (all postgres.CommitterStats) {
	for _, c := range store.Stats().Committers {
		all.Waiting, all.Locked, all.Groups, all.Begun = all.Waiting+c.Waiting, all.Locked+c.Locked, all.Groups+c.Groups, all.Begun+c.Begun
	}
	return all
}

// awaitQueued waits until so many writes of a store wait.
func awaitQueued(t *testing.T, store *agentstore.Store, count int) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d writes wait for a group", count), func() bool { return writesOf(store).Waiting >= count })
}

// awaitTried calls add, which makes writes in other goroutines, and waits until the store has
// tried to make some of them: it has begun more than so many groups.
func awaitTried(t *testing.T, store *agentstore.Store, groups int64, add func()) {
	t.Helper()
	before := writesOf(store).Begun
	add()
	await.For(t, "groups with these writes", func() bool { return writesOf(store).Begun > before+groups })
}

// lossyName is the application_name of a store whose connections get lost.
const lossyName = "lossy"

// awaitArrived waits until the server has done whatever the store has sent, also by connections
// that were lost: their backends end then. The store's application_name is lossyName.
func awaitArrived(t *testing.T, store, other *agentstore.Store) {
	t.Helper()
	await.For(t, "nothing is at the server", func() bool {
		return pgtest.Value[bool](t, other.Pool(), `SELECT count(*) <= $2 AND count(*) FILTER (WHERE state <> 'idle') = 0 FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, lossyName, store.Pool().Stat().TotalConns())
	})
}

// openLossy opens a store of one connection that gets to the server by a network that loses
// answers, and another one beside it.
func openLossy(t *testing.T, mode string, options agentstore.Options) (store, other *agentstore.Store, network *pgtest.Losing) {
	t.Helper()
	direct := pgtest.NewDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	network = pgtest.NewLosing(t, u.Host)
	u.Host = network.Addr
	through := pgtest.WithParameter(u.String(), "application_name", lossyName)
	options.MaxConns = 1
	store = pgtest.OpenStore(t, pgtest.WithParameter(through, "default_query_exec_mode", mode), options)
	return store, pgtest.OpenStore(t, direct, agentstore.Options{}), network
}
