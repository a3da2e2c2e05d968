package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestConformanceOfViews(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	open := opener(t, databaseURL)
	repotest.RunViews(t, func(t *testing.T) *agentstore.Store { return open(t).(*agentstore.Store) },
		func(store *agentstore.Store, namespace string) repo.Store { return store.In(namespace) },
		append(pgtest.Parts("Sessions", "Keys", "Deletion", "Turns", "Use", "Claims", "State", "Leases", "Streams", "StreamsFollow", "TurnRaces"),
			pgtest.Elapse(databaseURL))...)
}

func TestViewsApart(t *testing.T) {
	t.Parallel()
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{Tracer: isolated{t}, MaxConns: 16})
	repotest.RunApart(t, func(*testing.T) (one, other repo.Store, namespace string) {
		namespace = "ns" + repo.NewID().String()
		return store.In("ns" + repo.NewID().String()), store.In(namespace), namespace
	})
}

func TestStreamsOfViews(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	repotest.StreamsOfViews(t, store, store.In("one"), store.In("other"))
}

func TestViewsApartFromWhole(t *testing.T) {
	t.Parallel()
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	repotest.ApartFromWhole(t, store, store.In("one"))
}
