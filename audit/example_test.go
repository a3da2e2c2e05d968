package audit_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Entries are recorded in the background, with their secrets redacted; sealed with a
// key; and verified: all of them, or one by its proof, offline.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()

	writer, err := audit.NewWriter(store.AuditLog(), audit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	id := repo.NewID()
	if err := writer.Record(ctx, repo.AuditEntry{
		ID: id, Type: audit.EventToolInvoked, Details: json.RawMessage(`{"tool":"fetch","api_key":"sk-0123456789abcdef"}`),
	}); err != nil {
		log.Fatal(err)
	}
	left, err := writer.Close(ctx)
	fmt.Println(len(left), err, writer.Stats().Written)
	entry, err := store.Audit().Entry(ctx, id)
	fmt.Println(string(entry.Details), err)

	private, public, err := note.GenerateKey(rand.Reader, "example")
	if err != nil {
		log.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		log.Fatal(err)
	}
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{Signer: signer})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := sealer.SealOnce(ctx); err != nil {
		log.Fatal(err)
	}
	report, err := audit.Verify(ctx, store.AuditLog(), audit.VerifyOptions{Verifier: verifier})
	fmt.Println(report.Sealed, report.Intact(), err)

	proof, err := audit.Prove(ctx, store.AuditLog(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(audit.CheckProof(proof, verifier))
	proof.Entry.Actor = "someone else"
	fmt.Println(audit.CheckProof(proof, verifier))
	// Output:
	// 0 <nil> 1
	// {"tool":"fetch","api_key":"[REDACTED]"} <nil>
	// 1 true <nil>
	// <nil>
	// audit: proof refused: invalid transparency proof
}

// A writer with a spool: while the database is unavailable, entries wait in a file
// that survives the process.
func ExampleNewWriter() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()
	directory, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	spool, err := audit.OpenSpool(filepath.Join(directory, "audit.spool"), 64<<20)
	if err != nil {
		log.Fatal(err)
	}
	writer, err := audit.NewWriter(store.AuditLog(), audit.Options{Spool: spool})
	if err != nil {
		log.Fatal(err)
	}
	// Record returns when the entry is accepted, RecordWait when it is committed.
	fmt.Println(writer.Record(ctx, repo.AuditEntry{Type: audit.EventToolInvoked, Actor: "openai/gpt"}))
	fmt.Println(writer.RecordWait(ctx, repo.AuditEntry{Type: audit.EventUserApproval, User: "ada"}))

	left, err := writer.Close(ctx) // left: the entries that could not be written
	fmt.Println(len(left), err, writer.Health().State)
	stats := writer.Stats()
	fmt.Println(stats.Accepted, stats.Written)
	// Output:
	// <nil>
	// <nil>
	// 0 <nil> healthy
	// 2 2
}

// A checkpoint that was kept where the database's owner cannot change it shows later
// that what it covers has not been changed.
func ExampleVerify() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()
	if err := store.Audit().Record(ctx, repo.AuditEntry{Type: audit.EventConfigChanged}); err != nil {
		log.Fatal(err)
	}
	var held []byte
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{
		Publish: func(_ context.Context, checkpoint auditlog.Checkpoint) error {
			held = checkpoint.Note
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// A service runs sealer.Run(ctx) in a goroutine instead.
	sealed, err := sealer.SealOnce(ctx)
	fmt.Println(sealed, err)

	report, err := audit.Verify(ctx, store.AuditLog(), audit.VerifyOptions{Held: held})
	fmt.Println(report.Sealed, report.Intact(), err)

	// The checkpoint does not match another trail.
	other := memory.New()
	defer func() { _ = other.Close() }()
	report, err = audit.Verify(ctx, other.AuditLog(), audit.VerifyOptions{Held: held})
	fmt.Println(report.Intact(), report.Breaks[0].Kind, err)
	// Output:
	// 1 <nil>
	// 1 true <nil>
	// false differs from the checkpoint held <nil>
}

// Only a Writer redacts. Use a Redactor for entries that are recorded without one, for
// example in a transaction.
func ExampleRedactor() {
	redactor := audit.NewRedactor(audit.RedactorOptions{Keys: []string{"pin"}})
	fmt.Println(string(redactor.JSON(json.RawMessage(`{"user":"ada","pin":"4711","url":"postgres://app:geheim@db/agents"}`))))
	fmt.Println(redactor.Text("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abcdefghijk"))
	// Output:
	// {"user":"ada","pin":"[REDACTED]","url":"postgres://app:[REDACTED]@db/agents"}
	// Authorization: Bearer [REDACTED]
}

// An exporter that follows the trail by its leaves misses nothing: an entry that is written late, from a spool or by a long
// transaction, has an earlier time than others, and a later leaf. It keeps next with what it has exported.
func Example_follow() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	next := int64(0)
	poll := func() {
		if _, err := sealer.SealOnce(ctx); err != nil { // or a Sealer that runs
			log.Fatal(err)
		}
		for more := true; more; {
			leaves, err := store.AuditLog().Leaves(ctx, next, 1000)
			if err != nil {
				log.Fatal(err)
			}
			for _, leaf := range leaves {
				next = leaf.Sequence + 1
				if leaf.Entry != nil { // it was not pruned since
					fmt.Println(leaf.Sequence, leaf.Entry.Type, leaf.Entry.OccurredAt.Format(time.TimeOnly))
				}
			}
			more = len(leaves) > 0
		}
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	record := func(kind string, at time.Time) {
		if err := store.Audit().Record(ctx, repo.AuditEntry{ID: repo.NewID(), Type: kind, OccurredAt: at}); err != nil {
			log.Fatal(err)
		}
	}
	record(audit.EventToolInvoked, noon)
	poll()
	record(audit.EventAuthFailure, noon.Add(-time.Hour)) // late
	poll()
	// Output:
	// 0 tool_invoked 12:00:00
	// 1 auth_failure 11:00:00
}
