package postgres

import (
	"sync"
	"unique"

	"github.com/seed-df90f812/agentstore/repo"
)

// known knows of sessions, plans and streams in which namespace they are, for views. It is safe for
// concurrent use.
//
// It has two generations: what is used is in the young one, and when that is full, it becomes the old
// one, which is dropped.
type known struct {
	mu         sync.Mutex
	young, old map[entity]unique.Handle[string]
	// outside is what is known outside of the transaction, if this is of one. What that makes is known only in it: if it is
	// rolled back, somebody else may get an id that its caller has chosen.
	outside *known
}

// entity has its kind, because a caller may give a session the id of somebody else's plan.
type entity struct {
	kind string
	id   repo.ID
}

// maxKnown bounds a generation, whose entries have about 64 bytes.
const maxKnown = 32_768

func (k *known) has(kind string, id repo.ID, namespace string) bool {
	if k == nil {
		return false
	}
	e := entity{kind, id}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, found := k.young[e]
	if !found {
		if known, found = k.old[e]; found {
			k.put(e, known)
		}
	}
	if !found {
		return k.outside.has(kind, id, namespace)
	}
	return known.Value() == namespace
}

func (k *known) add(kind string, id repo.ID, namespace string) {
	handle := unique.Make(namespace)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(entity{kind, id}, handle)
}

func (k *known) put(e entity, namespace unique.Handle[string]) {
	if len(k.young) >= maxKnown {
		k.old, k.young = k.young, nil
	}
	if k.young == nil {
		k.young = map[entity]unique.Handle[string]{}
	}
	k.young[e] = namespace
}
