package audit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
)

// Proof shows that an entry is in the log that a checkpoint states. It is JSON
// that anyone checks with the public key alone: see CheckProof.
type Proof struct {
	Entry    ProvenEntry `json:"entry"`
	Nonce    repo.ID     `json:"nonce"`
	Sequence int64       `json:"sequence"`
	// Version is the leaf's. Zero: 1.
	Version int `json:"version,omitempty"`
	// Hashes lead from the leaf to the root (RFC 6962, section 2.1.1), in
	// base64.
	Hashes []tlog.Hash `json:"hashes"`
	// Checkpoint is the signed note.
	Checkpoint string `json:"checkpoint"`
}

// ProvenEntry is an entry with its details as a text, byte for byte as they were
// sealed.
type ProvenEntry = exactEntry

// ErrProof says that a proof does not hold.
var ErrProof = errors.New("audit: proof refused")

// Prove makes the proof of a sealed entry. Errors: repo.ErrNotFound for one that
// is not sealed, or was pruned.
func Prove(ctx context.Context, log repo.AuditLog, entryID repo.ID) (Proof, error) {
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
	hashes, err := tlog.ProveRecord(checkpoint.Size, leaf.Sequence, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found, err := log.Hashes(ctx, indexes)
		return toHashes(found), err
	}))
	if err != nil {
		return Proof{}, err
	}
	return Proof{
		Entry: exactOf(leaf.Entry.AuditEntry), Nonce: leaf.Entry.Nonce, Sequence: leaf.Sequence, Version: leaf.Version,
		Hashes: hashes, Checkpoint: string(checkpoint.Note),
	}, nil
}

// CheckProof checks a proof, offline. Without a verifier it checks no signature,
// and shows only that entry and checkpoint belong together. Errors: ErrProof,
// ErrCheckpoint.
func CheckProof(proof Proof, verifier note.Verifier) error {
	checkpoint, err := ParseCheckpoint([]byte(proof.Checkpoint), verifier)
	if err != nil {
		return err
	}
	if proof.Sequence < 0 || proof.Sequence >= checkpoint.Size {
		return fmt.Errorf("%w: its sequence is not in the checkpoint's log", ErrProof)
	}
	entry := repo.SealedEntry{AuditEntry: proof.Entry.entry(), Nonce: proof.Nonce}
	leaf := leafHashOne(entry)
	switch proof.Version {
	case 0, 1:
	case 2:
		leaf = LeafHash(entry)
	default:
		return fmt.Errorf("%w: its leaf is of a version that is not known here", ErrProof)
	}
	if err := tlog.CheckRecord(proof.Hashes, checkpoint.Size, checkpoint.Root, proof.Sequence, leaf); err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	return nil
}
