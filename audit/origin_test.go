package audit

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Logs that one key signs have different origins, which verifiers compare.
// Guarantee: The audit trail: One key never signs two logs of one origin.
func TestOrigins(t *testing.T) {
	signer, verifier := keys(t)
	one, _ := sealedStore(t, 5, signer)
	other, _ := sealedStore(t, 5, signer)
	var notes [2][]byte
	var origins [2]string
	for i, store := range []*memory.Store{one, other} {
		checkpoint, err := store.AuditLog().Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseStatement(checkpoint.Note, verifier)
		if err != nil {
			t.Fatal(err)
		}
		identity, err := store.AuditLog().Identity(t.Context())
		if err != nil || s.origin != "test/"+identity.String() {
			t.Errorf("the origin is %s, %v", s.origin, err)
		}
		notes[i], origins[i] = checkpoint.Note, s.origin
	}
	if origins[0] == origins[1] {
		t.Errorf("one key signed two logs of the origin %s", origins[0])
	}
	if report := verify(t, one.AuditLog(), VerifyOptions{Verifier: verifier, Held: notes[1]}); !slices.ContainsFunc(report.Breaks, func(b Break) bool { return b.Kind == BreakHeld }) {
		t.Errorf("against another log's checkpoint: %+v", report)
	}
	log := &tampered{Log: one.AuditLog(), checkpoint: func(c *auditlog.Checkpoint) { c.Note = notes[1] }}
	if report := verify(t, log, VerifyOptions{Verifier: verifier}); len(report.Breaks) == 0 || report.Breaks[0].Kind != BreakCheckpoint {
		t.Errorf("with another log's checkpoint: %+v", report)
	}
	// The name in an origin must be the key's.
	stranger, err := newCheckpoint(statement{origin: Origin("stranger", repo.NewID()), size: 5}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCheckpoint(stranger.Note, verifier); err == nil {
		t.Error("a checkpoint of another name was accepted")
	}
	nameless, err := newCheckpoint(statement{origin: verifier.Name(), size: 5}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCheckpoint(nameless.Note, verifier); err == nil {
		t.Error("a checkpoint that names no log was accepted")
	}
	if _, err := NewSealer(one.AuditLog(), SealerOptions{Signer: signer, Origin: "other"}); err == nil {
		t.Error("a sealer accepted an origin that is not its key's")
	}
	id := repo.NewID()
	if got := Origin("name/"+id.String(), id); got != "name/"+id.String() {
		t.Errorf("the origin of a key whose name contains the identity is %s", got)
	}
}
