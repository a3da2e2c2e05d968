package postgres

import (
	"unique"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
)

// known knows of sessions, plans and streams in which namespace they are, for views. It is safe for
// concurrent use.
type known struct {
	namespaces cache.Cache[entity, unique.Handle[string]]
	// outside is what is known outside of the transaction, if this is of one. What that makes is known only in it: if it
	// is rolled back, another caller may get an id that its caller has chosen.
	outside *known
}

// entity has its kind, because a caller may give a session the id of another caller's plan.
type entity struct {
	kind string
	id   repo.ID
}

func (k *known) has(kind string, id repo.ID, namespace string) bool {
	if k == nil {
		return false
	}
	if known, found := k.namespaces.Get(entity{kind, id}); found {
		return known.Value() == namespace
	}
	return k.outside.has(kind, id, namespace)
}

func (k *known) add(kind string, id repo.ID, namespace string) {
	k.namespaces.Put(entity{kind, id}, unique.Make(namespace), 0)
}
