package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
)

// BreakKind says how the trail differs from what was sealed.
type BreakKind string

// The kinds of breaks.
const (
	// BreakContent: an entry is not what was sealed.
	BreakContent BreakKind = "content changed"
	// BreakMissing: an entry is gone, and no prune says so.
	BreakMissing BreakKind = "entry missing"
	// BreakStray: an entry was put in past the recording.
	BreakStray BreakKind = "unknown entry"
	// BreakLeaf: a leaf is gone, or there is another one.
	BreakLeaf BreakKind = "leaf missing"
	// BreakHash: a hash of the tree is not that of its leaves.
	BreakHash BreakKind = "tree hash changed"
	// BreakCheckpoint: the checkpoint is malformed, not signed by the key, or
	// about another tree.
	BreakCheckpoint BreakKind = "checkpoint wrong"
	// BreakHeld: the log is not the one that a checkpoint kept elsewhere states.
	BreakHeld BreakKind = "differs from the checkpoint held"
	// BreakWaiting: entries have waited too long to be sealed.
	BreakWaiting BreakKind = "unsealed too long"
)

// Break is one place where the trail does not verify.
type Break struct {
	Kind BreakKind `json:"kind"`
	// Sequence is the leaf's, -1 where it is about none.
	Sequence int64 `json:"sequence"`
	// EntryID is zero where it is about none.
	EntryID repo.ID `json:"entry_id"`
	Detail  string  `json:"detail,omitempty"`
}

// Report is what Verify found.
type Report struct {
	// Sealed leaves were looked at; Pruned of them have no entry any more, and
	// a prune that says so.
	Sealed int64 `json:"sealed"`
	Pruned int64 `json:"pruned"`
	// Waiting entries are not sealed yet: up to 10,000.
	Waiting int64 `json:"waiting"`
	// Breaks are all that were found, up to VerifyOptions.MaxBreaks.
	Breaks []Break `json:"breaks"`
	// More: there were more breaks.
	More bool `json:"more,omitempty"`
}

// VerifyOptions say what to verify against. The zero value verifies the trail
// against the log beside it.
type VerifyOptions struct {
	// Verifier is the public key that the latest checkpoint must be signed
	// with. Nil: signatures are not looked at.
	Verifier note.Verifier
	// Held is a checkpoint that was kept elsewhere. Nil: none.
	Held []byte
	// MaxWaiting is how long an entry may wait to be sealed. Zero: 1 h.
	MaxWaiting time.Duration
	// MaxBreaks bounds the report. Zero: 1,000.
	MaxBreaks int
}

// Verify reads the whole log and the trail, in bounded memory, and lists every
// break. The error is of reading, not of what was read.
func Verify(ctx context.Context, log repo.AuditLog, options VerifyOptions) (Report, error) {
	if options.MaxWaiting == 0 {
		options.MaxWaiting = time.Hour
	}
	if options.MaxBreaks == 0 {
		options.MaxBreaks = 1000
	}
	v := &verification{ctx: ctx, log: log, options: options}
	for _, step := range []func() error{v.checkpoints, v.leaves, v.compare, v.strays, v.waiting} {
		if err := step(); err != nil {
			return v.report, err
		}
	}
	return v.report, nil
}

type verification struct {
	ctx     context.Context //nolint:containedctx // one call's own, and no longer than it
	log     repo.AuditLog
	options VerifyOptions
	report  Report

	checkpoint, held repo.AuditCheckpoint
	atLatest, atHeld [32]byte // the roots at their sizes
	tree             growingTree
}

func (v *verification) found(b Break) {
	if len(v.report.Breaks) >= v.options.MaxBreaks {
		v.report.More = true
		return
	}
	v.report.Breaks = append(v.report.Breaks, b)
}

func (v *verification) checkpoints() error {
	latest, err := v.log.Checkpoint(v.ctx)
	if err != nil && !errors.Is(err, repo.ErrNotFound) {
		return err
	}
	if err == nil {
		v.checkpoint = latest
		stated, err := ParseCheckpoint(latest.Note, v.options.Verifier)
		switch {
		case err != nil:
			v.found(Break{Kind: BreakCheckpoint, Sequence: -1, Detail: err.Error()})
		case stated.Size != latest.Size || stated.Root != latest.Root:
			v.found(Break{Kind: BreakCheckpoint, Sequence: -1, Detail: "its note states another tree than its row"})
		}
	}
	if v.options.Held == nil {
		return nil
	}
	held, err := ParseCheckpoint(v.options.Held, v.options.Verifier)
	if err != nil {
		return err
	}
	v.held = held
	return nil
}

// leaves reads every leaf with its entry, and grows the tree anew from them.
func (v *verification) leaves() error {
	for {
		page, err := v.log.Leaves(v.ctx, v.report.Sealed, repo.MaxPageSize)
		if err != nil {
			return err
		}
		for _, leaf := range page {
			for v.report.Sealed < leaf.Sequence {
				// The tree needs something in its place: everything behind it
				// is wrong, and said to be so once.
				v.found(Break{Kind: BreakLeaf, Sequence: v.report.Sealed})
				if err := v.grow([32]byte{}); err != nil {
					return err
				}
			}
			v.leaf(leaf)
			if err := v.grow(leaf.Hash); err != nil {
				return err
			}
		}
		if err := v.compareHashes(); err != nil {
			return err
		}
		if len(page) < repo.MaxPageSize {
			return nil
		}
	}
}

func (v *verification) leaf(leaf repo.AuditLeaf) {
	at := Break{Sequence: leaf.Sequence, EntryID: leaf.EntryID}
	switch {
	case leaf.Entry == nil && !leaf.PrunedBy.IsZero():
		v.report.Pruned++
	case leaf.Entry == nil:
		at.Kind = BreakMissing
		v.found(at)
	case leaf.Entry.ID != leaf.EntryID || LeafHash(*leaf.Entry) != leaf.Hash:
		at.Kind = BreakContent
		v.found(at)
	}
}

// grow adds a leaf to the tree. Of the tree only its right edge is needed, but
// the hashes since the last comparison are kept to be compared.
func (v *verification) grow(leaf [32]byte) error {
	added, err := tlog.StoredHashesForRecordHash(v.report.Sealed, leaf, &v.tree)
	if err != nil {
		return err
	}
	v.tree.added = append(v.tree.added, added...)
	v.report.Sealed++
	for _, root := range []struct {
		size int64
		at   *[32]byte
	}{{v.checkpoint.Size, &v.atLatest}, {v.held.Size, &v.atHeld}} {
		if v.report.Sealed == root.size {
			hash, err := tlog.TreeHash(root.size, &v.tree)
			if err != nil {
				return err
			}
			*root.at = hash
		}
	}
	return nil
}

// compareHashes compares the stored hashes with the tree's, and forgets all but
// the tree's right edge.
func (v *verification) compareHashes() error {
	indexes := make([]int64, len(v.tree.added))
	for i := range indexes {
		indexes[i] = v.tree.first + int64(i)
	}
	if len(indexes) > 0 {
		stored, err := v.log.Hashes(v.ctx, indexes)
		if errors.Is(err, repo.ErrNotFound) {
			v.found(Break{Kind: BreakHash, Sequence: -1, Detail: fmt.Sprintf("one of the hashes %d to %d is gone", indexes[0], indexes[len(indexes)-1])})
		} else if err != nil {
			return err
		}
		for i, hash := range stored {
			if hash != v.tree.added[i] {
				v.found(Break{Kind: BreakHash, Sequence: -1, Detail: fmt.Sprintf("hash %d", indexes[i])})
			}
		}
	}
	edge := map[int64]tlog.Hash{}
	keep := edgeIndexes(v.report.Sealed)
	hashes, err := v.tree.ReadHashes(keep)
	if err != nil {
		return err
	}
	for i, index := range keep {
		edge[index] = hashes[i]
	}
	v.tree = growingTree{first: tlog.StoredHashCount(v.report.Sealed), read: edge, stored: noHashes}
	return nil
}

// edgeIndexes are the stored hashes that a tree grows from: one for each of the
// perfect trees that it is made of.
func edgeIndexes(size int64) []int64 {
	var indexes []int64
	for level, start := 62, int64(0); level >= 0; level-- {
		if width := int64(1) << level; size-start >= width {
			indexes = append(indexes, tlog.StoredHashIndex(level, start>>level))
			start += width
		}
	}
	return indexes
}

func noHashes([]int64) ([][32]byte, error) {
	return nil, errors.New("audit: a hash is needed that is not on the tree's edge")
}

// compare compares the tree with the checkpoints.
func (v *verification) compare() error {
	switch {
	case v.checkpoint.Size != v.report.Sealed:
		v.found(Break{Kind: BreakCheckpoint, Sequence: -1, Detail: fmt.Sprintf("it is about %d leaves, there are %d", v.checkpoint.Size, v.report.Sealed)})
	case v.checkpoint.Size > 0 && v.atLatest != v.checkpoint.Root:
		v.found(Break{Kind: BreakCheckpoint, Sequence: -1, Detail: "its root is not that of the leaves"})
	}
	switch {
	case v.held.Size > v.report.Sealed:
		v.found(Break{Kind: BreakHeld, Sequence: -1, Detail: fmt.Sprintf("it is about %d leaves, there are %d", v.held.Size, v.report.Sealed)})
	case v.held.Size > 0 && v.atHeld != v.held.Root:
		v.found(Break{Kind: BreakHeld, Sequence: -1, Detail: "its root is not that of the leaves"})
	}
	return nil
}

func (v *verification) strays() error {
	strays, err := v.log.Strays(v.ctx, repo.MaxPageSize)
	if err != nil {
		return err
	}
	for _, entry := range strays {
		v.found(Break{Kind: BreakStray, Sequence: -1, EntryID: entry.ID})
	}
	lost, err := v.log.Lost(v.ctx, repo.MaxPageSize)
	if err != nil {
		return err
	}
	for _, entry := range lost {
		v.found(Break{Kind: BreakMissing, Sequence: -1, EntryID: entry.ID, Detail: "it waited to be sealed"})
	}
	return nil
}

func (v *verification) waiting() error {
	waiting, err := v.log.Waiting(v.ctx, repo.DefaultAuditCount)
	if err != nil {
		return err
	}
	v.report.Waiting = waiting.Entries
	if waiting.Entries > 0 && time.Since(waiting.Oldest) > v.options.MaxWaiting {
		v.found(Break{Kind: BreakWaiting, Sequence: -1, Detail: "since " + waiting.Oldest.Format(time.RFC3339)})
	}
	return nil
}
