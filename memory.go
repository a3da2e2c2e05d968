package agentstore

import (
	"context"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

const memoryScheme = "memory://"

// memories are this process's, by name and schema.
var memories registry[*memory.Store]

func openMemory(ctx context.Context, name string, o Options) (*Store, error) {
	if name == "" || len(name) > repo.MaxNameBytes || strings.ContainsAny(name, "/?#@ \x00") {
		return nil, &repo.InvalidError{Field: "database URL", Reason: "does not name a store in memory, as memory://name does"}
	}
	shared, release, err := memories.open(ctx, name+"\x00"+o.Schema,
		func(context.Context) (*memory.Store, error) { return memory.New(), nil },
		func(s *memory.Store) { _ = s.Close() },
	)
	if err != nil {
		return nil, err
	}
	store := shared.Share(memory.Options{WithoutSessionAudit: o.WithoutSessionAudit})
	return &Store{Store: store, ping: store.Ping, release: release}, nil
}
