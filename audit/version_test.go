package audit

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// sealOld seals as the previous version of the library did: with leaves of version 1, an
// origin that does not name the log, and no count of those leaves.
func sealOld(t *testing.T, log repo.AuditLog, signer note.Signer) {
	t.Helper()
	_, err := log.Seal(t.Context(), 10_000, func(u repo.AuditUnsealed, hashes repo.HashReader) (repo.AuditSeal, error) {
		tree := &growingTree{stored: hashes, first: tlog.StoredHashCount(u.Size)}
		seal := repo.AuditSeal{FirstHash: tree.first}
		size := u.Size
		for _, entry := range u.Entries {
			seal.Leaves = append(seal.Leaves, leafHashOne(entry))
			added, err := tlog.StoredHashesForRecordHash(size, leafHashOne(entry), tree)
			if err != nil {
				return seal, err
			}
			tree.added = append(tree.added, added...)
			size++
		}
		root, err := tlog.TreeHash(size, tree)
		if err != nil {
			return seal, err
		}
		seal.Hashes = renamed[[32]byte](tree.added)
		seal.Checkpoint, err = newCheckpoint(statement{origin: DefaultOrigin, size: size, root: root, versionOne: -1}, signer)
		return seal, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Leaves and checkpoints of the previous version verify, alone and mixed with those of
// this version in any order, and so do their proofs.
func TestVersionOne(t *testing.T) {
	signer, verifier := keys(t)
	store := memory.New()
	defer func() { _ = store.Close() }()
	old := make([]repo.AuditEntry, 10)
	for i := range old {
		old[i] = repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC), Type: repo.EventToolInvoked}
	}
	record := func(entries ...repo.AuditEntry) {
		if err := store.Audit().Record(t.Context(), entries...); err != nil {
			t.Fatal(err)
		}
	}
	record(old...)
	sealOld(t, store.AuditStore(), signer)
	held, err := store.AuditStore().Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, sealed, pruned, unbound int64) {
		t.Helper()
		report := verify(t, store.AuditStore(), VerifyOptions{Verifier: verifier, Held: held.Note})
		if len(report.Breaks) != 0 || report.Sealed != sealed || report.Pruned != pruned || report.Unbound != unbound {
			t.Errorf("%s: %+v", when, report)
		}
	}
	want("version 1 alone", 10, 0, 0)
	record(repo.AuditEntry{Type: repo.EventAuthFailure})
	seal(t, store, signer, 10)
	want("then this version", 11, 0, 0)
	checkpoint, err := store.AuditStore().Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := parseStatement(checkpoint.Note, verifier); err != nil || s.versionOne != 10 {
		t.Errorf("the checkpoint states %+v, %v", s, err)
	}
	record(repo.AuditEntry{Type: repo.EventAuthFailure})
	sealOld(t, store.AuditStore(), signer)
	want("then version 1", 12, 0, 0)
	record(repo.AuditEntry{Type: repo.EventAuthFailure})
	seal(t, store, signer, 10)
	want("then this version again", 13, 0, 0)

	if proof, err := Prove(t.Context(), store.AuditStore(), old[3].ID); err != nil || proof.Version != 1 || CheckProof(proof, verifier) != nil {
		t.Errorf("the proof is %+v, %v", proof, err)
	}
	if _, err := store.AuditStore().Prune(t.Context(), repo.AuditPrune{Before: old[5].OccurredAt, Types: []repo.EventType{repo.EventToolInvoked}}); err != nil {
		t.Fatal(err)
	}
	seal(t, store, signer, 10)
	want("pruned", 14, 5, 5)

	// What verification can tell about a pruned leaf of version 1, and what it cannot.
	prune := verify(t, store.AuditStore(), VerifyOptions{}).Prunes[0].EntryID
	gone := func(change func(*repo.AuditLeaf)) []Break {
		log := &tampered{AuditLog: store.AuditStore(), leaf: func(leaf *repo.AuditLeaf) bool {
			if leaf.EntryID == old[7].ID {
				leaf.Entry, leaf.PrunedBy = nil, prune
				change(leaf)
			}
			return true
		}}
		return verify(t, log, VerifyOptions{Verifier: verifier, MaxPruneWait: -1}).Breaks
	}
	if breaks := gone(func(*repo.AuditLeaf) {}); len(breaks) != 1 || breaks[0].Kind != BreakPrune {
		t.Errorf("a leaf younger than its prune: %+v", breaks)
	}
	if breaks := gone(func(leaf *repo.AuditLeaf) { leaf.PrunedBy = repo.NewID() }); len(breaks) != 1 || breaks[0].Kind != BreakPrune {
		t.Errorf("a leaf that names no prune: %+v", breaks)
	}
	if breaks := gone(func(leaf *repo.AuditLeaf) { leaf.OccurredAt = old[0].OccurredAt }); len(breaks) != 0 {
		t.Errorf("a leaf whose row has another time was found, contrary to docs/audit.md: %+v", breaks)
	}
}

// A leaf of version 2 cannot be passed off as one of version 1.
func TestNotPassedOffAsVersionOne(t *testing.T) {
	signer, verifier := keys(t)
	store, entries := sealedStore(t, 20, signer)
	if _, err := store.AuditStore().Prune(t.Context(), repo.AuditPrune{Before: entries[5].OccurredAt}); err != nil {
		t.Fatal(err)
	}
	seal(t, store, signer, 10)
	prune := verify(t, store.AuditStore(), VerifyOptions{}).Prunes[0].EntryID
	log := &tampered{AuditLog: store.AuditStore(), leaf: func(leaf *repo.AuditLeaf) bool {
		if leaf.EntryID == entries[12].ID {
			leaf.Entry, leaf.PrunedBy, leaf.Version, leaf.Kept, leaf.OccurredAt = nil, prune, 1, repo.AuditKept{}, entries[0].OccurredAt
		}
		return true
	}}
	if breaks := verify(t, log, VerifyOptions{Verifier: verifier}).Breaks; len(breaks) != 1 || breaks[0].Kind != BreakCheckpoint {
		t.Errorf("%+v", breaks)
	}
}

// Logs that one key signs have different origins, which verifiers compare.
func TestOrigins(t *testing.T) {
	signer, verifier := keys(t)
	one, _ := sealedStore(t, 5, signer)
	other, _ := sealedStore(t, 5, signer)
	var notes [2][]byte
	var origins [2]string
	for i, store := range []*memory.Store{one, other} {
		checkpoint, err := store.AuditStore().Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseStatement(checkpoint.Note, verifier)
		if err != nil {
			t.Fatal(err)
		}
		identity, err := store.AuditStore().Identity(t.Context())
		if err != nil || s.origin != "test/"+identity.String() {
			t.Errorf("the origin is %s, %v", s.origin, err)
		}
		notes[i], origins[i] = checkpoint.Note, s.origin
	}
	if origins[0] == origins[1] {
		t.Errorf("one key signed two logs of the origin %s", origins[0])
	}
	if report := verify(t, one.AuditStore(), VerifyOptions{Verifier: verifier, Held: notes[1]}); !slices.ContainsFunc(report.Breaks, func(b Break) bool { return b.Kind == BreakHeld }) {
		t.Errorf("against another log's checkpoint: %+v", report)
	}
	log := &tampered{AuditLog: one.AuditStore(), checkpoint: func(c *repo.AuditCheckpoint) { c.Note = notes[1] }}
	if report := verify(t, log, VerifyOptions{Verifier: verifier}); len(report.Breaks) == 0 || report.Breaks[0].Kind != BreakCheckpoint {
		t.Errorf("with another log's checkpoint: %+v", report)
	}
	// The name in an origin must be the key's.
	stranger, err := newCheckpoint(statement{origin: Origin("stranger", repo.NewID()), size: 5, versionOne: -1}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCheckpoint(stranger.Note, verifier); err == nil {
		t.Error("a checkpoint of another name was accepted")
	}
	if _, err := NewSealer(one.AuditStore(), SealerOptions{Signer: signer, Origin: "other"}); err == nil {
		t.Error("a sealer accepted an origin that is not its key's")
	}
	id := repo.NewID()
	if got := Origin("name/"+id.String(), id); got != "name/"+id.String() {
		t.Errorf("the origin of a key whose name contains the identity is %s", got)
	}
}
