package view

import (
	"sync"
	"unique"

	"github.com/seed-df90f812/agentstore/repo"
)

// Known knows of sessions, plans and streams in which namespace they are. It is safe for concurrent
// use. The zero value knows nothing.
//
// It has two generations: what is used is in the young one, and when that is full, it becomes the old
// one, which is dropped.
type Known struct {
	mu         sync.Mutex
	young, old map[entity]unique.Handle[string]
}

// entity has its kind, because a caller may give a session the id of somebody else's plan.
type entity struct {
	kind string
	id   repo.ID
}

// maxKnown bounds a generation, whose entries have about 64 bytes.
const maxKnown = 32_768

func (k *Known) has(kind string, id repo.ID, namespace string) bool {
	e := entity{kind, id}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, found := k.young[e]
	if !found {
		if known, found = k.old[e]; found {
			k.put(e, known)
		}
	}
	return found && known.Value() == namespace
}

func (k *Known) add(kind string, id repo.ID, namespace string) {
	handle := unique.Make(namespace)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(entity{kind, id}, handle)
}

func (k *Known) put(e entity, namespace unique.Handle[string]) {
	if len(k.young) >= maxKnown {
		k.old, k.young = k.young, nil
	}
	if k.young == nil {
		k.young = map[entity]unique.Handle[string]{}
	}
	k.young[e] = namespace
}
