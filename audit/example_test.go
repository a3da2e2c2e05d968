package audit_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Entries are recorded in the background, without their secrets; sealed under a
// key; and verified, all of them or one of them offline.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()

	writer, err := audit.NewWriter(store.Trail(), audit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	id := repo.NewID()
	if err := writer.Record(ctx, repo.AuditEntry{
		ID: id, Type: repo.EventToolInvoked, Details: json.RawMessage(`{"tool":"fetch","api_key":"sk-0123456789abcdef"}`),
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
	sealer, err := audit.NewSealer(store.Trail(), audit.SealerOptions{Signer: signer})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := sealer.SealOnce(ctx); err != nil {
		log.Fatal(err)
	}
	report, err := audit.Verify(ctx, store.Trail(), audit.VerifyOptions{Verifier: verifier})
	fmt.Println(report.Sealed, len(report.Breaks), err)

	proof, err := audit.Prove(ctx, store.Trail(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(audit.CheckProof(proof, verifier))
	proof.Entry.Actor = "someone else"
	fmt.Println(audit.CheckProof(proof, verifier))
	// Output:
	// 0 <nil> 1
	// {"tool":"fetch","api_key":"[REDACTED]"} <nil>
	// 1 0 <nil>
	// <nil>
	// audit: proof refused: invalid transparency proof
}
