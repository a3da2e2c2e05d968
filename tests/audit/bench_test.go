package audit

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func benchStore(b *testing.B) auditlog.Keeper {
	b.Helper()
	store := postgres.New(pgsettings.Checked{Pool: pgtest.NewPool(b, pgtest.NewDatabase(b))}, postgres.Options{})
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// benchBatch is a batch of entries of about 650 bytes.
func benchBatch(size int, at time.Time) []repo.AuditEntry {
	batch := make([]repo.AuditEntry, size)
	for i := range batch {
		batch[i] = entryAt(at.Add(time.Duration(i) * time.Microsecond))
		batch[i].SessionID, batch[i].PlanID, batch[i].User, batch[i].Project = repo.NewID(), repo.NewID(), "user", "project"
		batch[i].Details = json.RawMessage(fmt.Sprintf(`{"tool":"shell","input":%q}`, fmt.Sprintf("%0400d", i)))
	}
	return batch
}

func benchRecord(b *testing.B, sink auditlog.Sink, batch []repo.AuditEntry) {
	b.Helper()
	if _, err := sink.Record(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}

func benchSeal(b *testing.B, store auditlog.Keeper, limit int) int {
	b.Helper()
	sealed, err := store.AuditLog().Seal(b.Context(), limit, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
		leaves := make([][32]byte, len(u.Entries))
		return auditlog.Seal{
			Leaves: leaves, Hidden: leaves, FirstHash: 2 * u.Size, Hashes: append(leaves, leaves...), // a tree has two hashes for each leaf
			Checkpoint: auditlog.Checkpoint{Size: u.Size + int64(len(leaves)), Note: []byte{1}},
		}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return sealed
}

// One iteration is one entry.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{1, 100, 500, 2000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			sink, err := benchStore(b).AuditLog().Sink(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = sink.Close() }()
			benchRecord(b, sink, benchBatch(1, time.Now()))
			b.ResetTimer()
			for done := 0; done < b.N; done += size {
				benchRecord(b, sink, benchBatch(size, time.Now()))
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{500, 5000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			store := benchStore(b)
			sink, err := store.AuditLog().Sink(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = sink.Close() }()
			for done := 0; done < b.N+size; done += size {
				benchRecord(b, sink, benchBatch(size, time.Now()))
			}
			b.ResetTimer()
			for done := 0; done < b.N; {
				done += benchSeal(b, store, size)
			}
		})
	}
}

// Half of the entries are on hold, and have to be skipped.
func BenchmarkPrune(b *testing.B) {
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("held=%t", held), func(b *testing.B) {
			store := benchStore(b)
			sink, err := store.AuditLog().Sink(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = sink.Close() }()
			plan := repo.NewID()
			for done := 0; done < b.N; done += 1000 {
				batch := benchBatch(1000, time.Now().AddDate(0, -done/20_000-2, 0))
				if held {
					kept := benchBatch(1000, batch[0].OccurredAt.AddDate(-1, 0, 0))
					for i := range kept {
						kept[i].PlanID = plan
					}
					benchRecord(b, sink, kept)
				}
				benchRecord(b, sink, batch)
			}
			for benchSeal(b, store, 10_000) > 0 {
			}
			if err := store.AuditLog().Hold(b.Context(), auditlog.Hold{PlanID: plan, Reason: "x"}); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if pruned, err := store.AuditLog().Prune(b.Context(), auditlog.Prune{Before: time.Now().AddDate(0, -1, 0)}); err != nil || pruned.Entries < int64(b.N) {
				b.Fatal(pruned, err)
			}
		})
	}
}
