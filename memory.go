package agentstore

import (
	"context"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

const memoryScheme = "memory://"

// memories are this process's, by name.
var memories registry[*memory.Store]

func openMemory(ctx context.Context, name string, o Options) (*Store, error) {
	if name == "" || len(name) > repo.MaxNameBytes || strings.ContainsAny(name, "/?#@ \x00") {
		return nil, &repo.InvalidError{Field: "database URL", Reason: "does not name a store in memory, as memory://name does"}
	}
	o.Migrate = false // there is nothing to migrate
	if field := o.differs(Options{}); field != "" {
		return nil, &repo.InvalidError{Field: "options." + field, Reason: "is set, but a store in memory has no pool"}
	}
	shared, release, err := memories.open(ctx, name,
		func(context.Context) (*memory.Store, error) { return memory.New(), nil },
		func(s *memory.Store) { _ = s.Close() },
	)
	if err != nil {
		return nil, err
	}
	return &Store{Store: shared.Share(), release: release}, nil
}
