package agentstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

const memoryScheme = "memory://"

// memories are this process's, by name and schema.
var memories registry[sharedMemory]

// sharedMemory is a store in memory with the clock of its first opener.
type sharedMemory struct {
	*memory.Store
	clock *memory.Clock
}

func openMemory(ctx context.Context, name string, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if name == "" || len(name) > repo.MaxNameBytes || strings.ContainsAny(name, "/?#@ \x00") {
		return nil, &repo.InvalidError{
			Field:  "database URL",
			Reason: "does not name a store in memory, as memory://name does",
		}
	}
	shared, release, err := memories.open(ctx, name+"\x00"+o.Schema,
		func(context.Context) (sharedMemory, error) {
			return sharedMemory{memory.NewWith(memory.Options{Clock: o.Clock}), o.Clock}, nil
		},
		func(s sharedMemory) { _ = s.Close() },
	)
	if err != nil {
		return nil, err
	}
	if o.Clock != nil && o.Clock != shared.clock {
		release()
		return nil, fmt.Errorf("%w: the store in memory is open with another value of options.Clock", repo.ErrConflict)
	}
	store := shared.Share(memory.Options{
		WithoutSessionAudit: o.WithoutSessionAudit, CountTokens: o.CountTokens, TokenCounter: o.TokenCounter,
	})
	return &Store{Store: observed.Store(store, o.Observer), kept: store, release: release, observer: o.Observer}, nil
}
