package repotest

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditBufferTests are bufferTests of the interfaces that maintain the audit trail.
// If stores share a database, other tests change it meanwhile.
func auditBufferTests() []test {
	return []test{
		{"BuffersOfAuditLog", func(t *testing.T, store repo.Store) {
			testBuffers[auditlog.Store](auditStoreBuffers(store))(t, store)
		}},
		{"BuffersOfSink", func(t *testing.T, store repo.Store) {
			testBuffers[auditlog.Sink](sinkBuffers(store))(t, store)
		}},
	}
}

// readSealed reads the leaf of an entry.
func readSealed(t *testing.T, store repo.Store, entry repo.AuditEntry) func() any {
	return func() any {
		leaf, err := auditLog(store).Leaf(t.Context(), entry.ID)
		return must(t, leaf, err)
	}
}

func auditStoreBuffers(store repo.Store) bufferCases {
	trail := auditLog(store)
	// sealed is an entry with its leaf.
	sealed := func(t *testing.T) repo.AuditEntry {
		t.Helper()
		entry := recorded(t, store)[0]
		auditSeal(t, store, entry)
		return entry
	}
	reading := func(args ...any) func(*testing.T, repo.Repositories) buffered {
		return func(t *testing.T, _ repo.Repositories) buffered {
			sealed(t)
			return buffered{on: trail, args: args, moving: true}
		}
	}
	return bufferCases{
		"Sink":       reading(),
		"Holds":      reading(),
		"Doctor":     reading(),
		"Identity":   reading(),
		"Checkpoint": reading(),
		"Leaves":     reading(int64(0), repo.MaxPageSize),
		"Strays":     reading(10),
		"Lost":       reading(10),
		"Waiting":    reading(10),
		"Hashes": func(t *testing.T, _ repo.Repositories) buffered {
			sealed(t)
			return buffered{on: trail, args: []any{[]int64{0}}}
		},
		"Leaf": func(t *testing.T, _ repo.Repositories) buffered {
			return buffered{on: trail, args: []any{sealed(t).ID}}
		},
		"Hold": func(t *testing.T, r repo.Repositories) buffered {
			entry := recorded(t, r)[0]
			return buffered{on: trail, args: []any{auditlog.Hold{PlanID: entry.PlanID, Reason: "reason"}}, read: readEntries(t, r, entry)}
		},
		"Release": func(t *testing.T, r repo.Repositories) buffered {
			entry := recorded(t, r)[0]
			return buffered{on: trail, args: []any{auditlog.Hold{PlanID: entry.PlanID}}, read: readEntries(t, r, entry)}
		},
		"Prune": func(t *testing.T, r repo.Repositories) buffered {
			kind := auditType(t)
			old := auditEntries(kind, 2)
			record(t, r.Audit(), old...)
			auditSeal(t, store, old...)
			actor := "pruner/" + randomName()
			prune := auditlog.Prune{Before: time.Now(), Types: []string{kind}, Actor: actor, Reason: "reason"}
			return buffered{on: trail, args: []any{prune}, read: func() any { return auditPrunes(t, store, actor) }}
		},
		"Seal": func(t *testing.T, r repo.Repositories) buffered {
			entry := recorded(t, r)[0]
			var unsealed auditlog.Unsealed
			var seal auditlog.Seal
			made := func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
				unsealed, seal = u, auditMake(u)
				return seal, nil
			}
			return buffered{
				on: trail, args: []any{1000, made}, moving: true,
				extra: func() []any { return []any{unsealed, seal} },
				read: func() any {
					auditSeal(t, store, entry) // another test's sealer may have come first
					checkpoint, err := trail.Checkpoint(t.Context())
					return []any{readSealed(t, store, entry)(), must(t, checkpoint, err)}
				},
			}
		},
	}
}

func sinkBuffers(store repo.Store) bufferCases {
	open := func(t *testing.T) auditlog.Sink {
		t.Helper()
		sink, err := auditLog(store).Sink(t.Context())
		must(t, sink, err)
		t.Cleanup(func() { _ = sink.Close() })
		return sink
	}
	return bufferCases{
		"Record": func(t *testing.T, r repo.Repositories) buffered {
			entries := []repo.AuditEntry{auditEntry(store), auditEntry(store)}
			return buffered{on: open(t), args: []any{entries}, read: readEntries(t, r, clone(entries)...)}
		},
		// No repository returns quarantined entries.
		"Quarantine": func(t *testing.T, r repo.Repositories) buffered {
			poison := auditlog.Poison{ID: repo.NewID(), Document: []byte(`{"a":1}`), Reason: "reason"}
			return buffered{on: open(t), args: []any{poison}, read: readEntries(t, r, recorded(t, r)...)}
		},
		"Close": func(t *testing.T, r repo.Repositories) buffered {
			return buffered{on: open(t), read: readEntries(t, r, recorded(t, r)...)}
		},
	}
}
