package audit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// Proof shows that an entry is in the log of a checkpoint. Anyone can check its JSON
// form with only the public key: see CheckProof.
type Proof struct {
	Entry ExactEntry `json:"entry"`
	// Salts are auditlog.Entry.Salts, in base64.
	Salts    [][]byte `json:"salts"`
	Sequence int64    `json:"sequence"`
	// Hashes lead from the leaf to the root (RFC 6962, section 2.1.1), in
	// base64.
	Hashes []tlog.Hash `json:"hashes"`
	// Checkpoint is the signed note.
	Checkpoint string `json:"checkpoint"`
}

// ErrProof means that a proof is invalid.
var ErrProof = errors.New("audit: proof refused")

// Prove returns the proof of a sealed entry. Errors: repo.ErrNotFound if the entry is
// not sealed or was pruned.
func Prove(ctx context.Context, log auditlog.Log, entryID repo.ID) (Proof, error) {
	leaf, err := log.Leaf(ctx, entryID)
	if err != nil {
		return Proof{}, err
	}
	if leaf.Entry == nil {
		return Proof{}, &repo.NotFoundError{Kind: "audit entry", ID: entryID}
	}
	checkpoint, err := log.Checkpoint(ctx)
	if err != nil {
		return Proof{}, err
	}
	hashes, err := tlog.ProveRecord(checkpoint.Size, leaf.Sequence, hashesOf(ctx, log))
	if err != nil {
		return Proof{}, err
	}
	return Proof{
		Entry: exactOf(leaf.Entry.AuditEntry), Salts: leaf.Entry.Salts, Sequence: leaf.Sequence,
		Hashes: hashes, Checkpoint: string(checkpoint.Note),
	}, nil
}

// CheckProof checks a proof, offline. Without a verifier it does not check the
// signature, and shows only that entry and checkpoint belong together. Errors:
// ErrProof, ErrCheckpoint.
func CheckProof(proof Proof, verifier note.Verifier) error {
	checkpoint, err := ParseCheckpoint([]byte(proof.Checkpoint), verifier)
	if err != nil {
		return err
	}
	leaf := LeafHash(auditlog.Entry{AuditEntry: proof.Entry.entry(), Salts: proof.Salts})
	if err := tlog.CheckRecord(proof.Hashes, checkpoint.Size, checkpoint.Root, proof.Sequence, leaf); err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	return nil
}
