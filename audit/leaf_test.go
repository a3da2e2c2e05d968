package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// erase does what an erasure of a field does.
func erase(e *auditlog.Entry, field int) {
	value := rules.HiddenFields(e.AuditEntry)[field]
	digest := sha256.New()
	digest.Write([]byte(value.Line))
	digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(e.Salts[field]))))
	digest.Write(e.Salts[field])
	digest.Write([]byte(value.Value))
	e.Salts[field] = digest.Sum(nil)
	switch field {
	case 0:
		e.Actor = ""
	case 1:
		e.User = ""
	case 2:
		e.Project = ""
	case 3:
		e.Details = json.RawMessage(`{}`)
	}
}

func leafEntry() auditlog.Entry {
	entry := auditlog.Entry{AuditEntry: repo.AuditEntry{
		ID: repo.ID{1}, OccurredAt: time.Unix(1, 0), RecordedAt: time.Unix(2, 0), Type: "tool_invoked", Namespace: "n",
		Actor: "a", User: "u", PlanID: repo.ID{2}, Details: json.RawMessage(`{"a": 1}`),
	}}
	for i := range 4 {
		entry.Salts = append(entry.Salts, slices.Repeat([]byte{byte(i)}, 16))
	}
	return entry
}

// The leaf does not change: what is sealed must verify for ever.
func TestLeafHash(t *testing.T) {
	hash := LeafHash(leafEntry())
	if got, want := hex.EncodeToString(hash[:]), "f28f298b5188896550d9656dc01aded27e0e028f94cad54c0b7d0f3811a34154"; got != want {
		t.Errorf("the leaf's hash is %s, want %s", got, want)
	}
}

// An entry whose fields are erased, one after another and in any order, has the same leaf,
// and its proof verifies. No part of the entry tells the fields any more: their salts are
// gone.
func TestErasedFields(t *testing.T) {
	want := LeafHash(leafEntry())
	for first := range 4 {
		entry := leafEntry()
		for i := range 4 {
			erase(&entry, (first+i)%4)
			if LeafHash(entry) != want {
				t.Errorf("beginning with field %d, after %d erasures: another leaf", first, i+1)
			}
		}
		entry.Actor = "b"
		if LeafHash(entry) == want {
			t.Error("a value beside its digest has the same leaf")
		}
	}

	signer, verifier := keys(t)
	store, entries := sealedStore(t, 20, signer)
	log := &tampered{Log: store.AuditLog(), leaf: func(leaf *auditlog.Leaf) bool {
		if leaf.EntryID == entries[7].ID || leaf.EntryID == entries[8].ID {
			erase(leaf.Entry, 1)
			erase(leaf.Entry, 3)
		}
		return true
	}}
	if report := verify(t, log, VerifyOptions{Verifier: verifier}); !report.Intact() || report.Erased != 2 || report.Sealed != 20 {
		t.Errorf("%+v", report)
	}
	proof, err := Prove(t.Context(), store.AuditLog(), entries[7].ID)
	if err != nil {
		t.Fatal(err)
	}
	erased := auditlog.Entry{AuditEntry: proof.Entry.entry(), Salts: proof.Salts}
	erase(&erased, 1)
	proof.Entry, proof.Salts = exactOf(erased.AuditEntry), erased.Salts
	if err := CheckProof(proof, verifier); err != nil {
		t.Error(err)
	}
}
