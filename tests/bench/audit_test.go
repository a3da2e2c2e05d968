package bench

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// entry is an audit entry of about 650 bytes.
func entry() repo.AuditEntry {
	return repo.AuditEntry{
		ID: repo.NewID(), Type: events.ToolInvoked, OccurredAt: time.Now(), Actor: "openai/gpt", User: "someone@example.org",
		PlanID: repo.NewID(), SessionID: repo.NewID(), Project: "project",
		Details: json.RawMessage(`{"tool":"edit","lines":[10,20],"summary":"` + strings.Repeat("changed a thing; ", 28) + `"}`),
	}
}

func entryRow(e repo.AuditEntry) []any {
	id := func(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
	return []any{e.OccurredAt, id(e.ID), e.Type, e.Actor, e.User, id(e.PlanID), id(e.SessionID), e.Project, []byte(e.Details)}
}

var entryColumns = []string{"occurred_at", "id", "type", "actor", "user_name", "plan_id", "session_id", "project", "details"}

// The throughput of three ways to write to the same table: the writer, COPY in
// batches of the same size, and one INSERT for each entry.
func BenchmarkAudit(b *testing.B) {
	rate := func(b *testing.B) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s") }
	b.Run("writer", func(b *testing.B) {
		store := pgtest.NewStore(b, agentstore.Options{})
		w, err := audit.NewWriter(store.AuditLog(), audit.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.RecordWait(b.Context(), entry()); err != nil { // connects
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := w.Record(b.Context(), entry()); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		rate(b)
	})
	b.Run("copy", func(b *testing.B) {
		store := pgtest.NewStore(b, agentstore.Options{})
		const batch = 1000
		rows := make([][]any, 0, batch)
		flush := func() {
			if _, err := store.Pool().CopyFrom(b.Context(), pgx.Identifier{"audit_entries"}, entryColumns, pgx.CopyFromRows(rows)); err != nil {
				b.Fatal(err)
			}
			rows = rows[:0]
		}
		for b.Loop() {
			if rows = append(rows, entryRow(entry())); len(rows) == batch {
				flush()
			}
		}
		flush()
		rate(b)
	})
	b.Run("insert", func(b *testing.B) {
		store := pgtest.NewStore(b, agentstore.Options{})
		sql := "INSERT INTO audit_entries (" + strings.Join(entryColumns, ", ") + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
		for b.Loop() {
			if _, err := store.Pool().Exec(b.Context(), sql, entryRow(entry())...); err != nil {
				b.Fatal(err)
			}
		}
		rate(b)
	})
}

// Sealing: from the queue into the log.
func BenchmarkSeal(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{})
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	const batch = 5000
	for b.Loop() {
		b.StopTimer()
		entries := make([]repo.AuditEntry, batch)
		for i := range entries {
			entries[i] = entry()
		}
		if err := store.Audit().Record(b.Context(), entries...); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if sealed, err := sealer.SealOnce(b.Context()); err != nil || sealed < batch {
			b.Fatal(sealed, err)
		}
	}
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "entries/s")
}
