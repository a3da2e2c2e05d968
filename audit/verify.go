package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	// BreakStray: an entry was inserted without being recorded.
	BreakStray BreakKind = "unknown entry"
	// BreakPrune: an entry is gone, and the prune that its leaf names is not on
	// record in the log, or does not cover it.
	BreakPrune BreakKind = "not covered by a prune"
	// BreakLeaf: a leaf is gone.
	BreakLeaf BreakKind = "leaf missing"
	// BreakTwice: there are two leaves in one place, or two entries of one leaf.
	BreakTwice BreakKind = "sealed twice"
	// BreakKept: what a leaf keeps of its entry is not what was sealed.
	BreakKept BreakKind = "leaf changed"
	// BreakHash: a hash of the tree is not that of its leaves.
	BreakHash BreakKind = "tree hash changed"
	// BreakCheckpoint: the checkpoint is malformed, not signed by the key, or
	// about another tree or log; or leaves are in no checkpoint.
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
	// Sealed leaves were looked at, all that a checkpoint states; Pruned of them
	// have no entry any more, and a prune on record that covers them.
	Sealed int64 `json:"sealed"`
	Pruned int64 `json:"pruned"`
	// Unbound of those pruned are of version 1: that an entry was there, and a
	// prune that says it removed such ones, is all that can be known of them.
	Unbound int64 `json:"unbound"`
	// Prunes are those that removed entries, in the order of the log. Their bounds
	// cover what they removed; whether they should have been made is for the reader
	// to judge.
	Prunes []Prune `json:"prunes"`
	// Waiting entries are not sealed yet: up to 10,000.
	Waiting int64 `json:"waiting"`
	// Breaks are all that were found, up to VerifyOptions.MaxBreaks.
	Breaks []Break `json:"breaks"`
	// More reports that there were more breaks.
	More bool `json:"more,omitempty"`
}

// Prune is a prune that is on record in the log.
type Prune struct {
	EntryID    repo.ID   `json:"entry_id"`
	Sequence   int64     `json:"sequence"`
	OccurredAt time.Time `json:"occurred_at"`
	Actor      string    `json:"actor,omitempty"`
	repo.AuditPruneDetails
	// Entries is how many it removed.
	Entries int64 `json:"entries"`

	leaf tlog.Hash // of what is stored
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
	// MaxPruneWait is how long to wait until the entry of a concurrent prune is
	// sealed; what it removed does not verify before that. Zero: 30 s. Negative:
	// no wait.
	MaxPruneWait time.Duration
	// MaxBreaks bounds the report. Zero: 1,000.
	MaxBreaks int
}

// Verify reads the log up to its latest checkpoint, and the trail, in memory that is
// bounded but for the prunes on record, and lists every break. Entries may be
// recorded, sealed and pruned at the same time. The error is one of reading: a trail
// that does not verify is not an error.
func Verify(ctx context.Context, log repo.AuditLog, options VerifyOptions) (Report, error) {
	if options.MaxWaiting == 0 {
		options.MaxWaiting = time.Hour
	}
	if options.MaxPruneWait == 0 {
		options.MaxPruneWait = 30 * time.Second
	}
	if options.MaxBreaks == 0 {
		options.MaxBreaks = 1000
	}
	v := &verification{
		ctx: ctx, log: log, options: options, prunes: map[repo.ID]*Prune{}, pruneLeaves: map[int64]tlog.Hash{},
		patience: options.MaxPruneWait,
	}
	for _, step := range []func() error{v.identify, v.hold, v.latest, v.leaves, v.later, v.compareHeld, v.beyond, v.strays, v.waiting} {
		if err := step(); err != nil {
			return v.report, err
		}
	}
	for _, prune := range v.prunes {
		if prune.Entries > 0 {
			v.report.Prunes = append(v.report.Prunes, *prune)
		}
	}
	slices.SortFunc(v.report.Prunes, func(a, b Prune) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return v.report, nil
}

type verification struct {
	ctx     context.Context //nolint:containedctx // one call's own, and no longer than it
	log     repo.AuditLog
	options VerifyOptions
	report  Report

	identity repo.ID
	// target is how many leaves to read: the latest checkpoint's size.
	target int64
	marks  []mark
	held   int64 // the size of the checkpoint held
	tree   growingTree
	// versionOne of the leaves so far are of version 1.
	versionOne int64

	// prunes are by their entries. One whose Sequence is negative is none.
	prunes   map[repo.ID]*Prune
	patience time.Duration // to wait for them, all in all
	// pruneLeaves are the hashes of the entries of prunes that were read with their
	// own leaves, by the place of these.
	pruneLeaves map[int64]tlog.Hash
	// firstBeyond is behind what was the latest checkpoint.
	firstBeyond *repo.AuditLeaf
}

// prunePause is between two looks at a prune whose entry is not sealed.
const prunePause = 50 * time.Millisecond

// mark is what a checkpoint states of the tree at its size.
type mark struct {
	statement
	kind BreakKind
}

func (v *verification) found(b Break) {
	if len(v.report.Breaks) >= v.options.MaxBreaks {
		v.report.More = true
		return
	}
	v.report.Breaks = append(v.report.Breaks, b)
}

func (v *verification) wrong(kind BreakKind, detail string, arguments ...any) {
	v.found(Break{Kind: kind, Sequence: -1, Detail: fmt.Sprintf(detail, arguments...)})
}

func (v *verification) identify() error {
	identity, err := v.log.Identity(v.ctx)
	if errors.Is(err, repo.ErrNotFound) {
		v.wrong(BreakCheckpoint, "the log has no identity any more")
		return nil
	}
	v.identity = identity
	return err
}

func (v *verification) hold() error {
	if v.options.Held == nil {
		return nil
	}
	held, err := parseStatement(v.options.Held, v.options.Verifier)
	if err != nil {
		return err
	}
	if err := held.about(v.identity); err != nil {
		v.wrong(BreakHeld, "%v", err)
	}
	v.held = held.size
	v.marks = append(v.marks, mark{held, BreakHeld})
	return nil
}

// latest reads the latest checkpoint. Leaves are read up to there and no further: a
// sealer may be adding others.
func (v *verification) latest() error {
	latest, err := v.log.Checkpoint(v.ctx)
	if errors.Is(err, repo.ErrNotFound) || err == nil && latest.Size <= v.target {
		return nil
	}
	if err != nil {
		return err
	}
	v.target = latest.Size
	stated, err := parseStatement(latest.Note, v.options.Verifier)
	if err == nil {
		err = stated.about(v.identity)
	}
	switch {
	case err != nil:
		v.wrong(BreakCheckpoint, "%v", err)
	case stated.size != latest.Size || stated.root != latest.Root:
		v.wrong(BreakCheckpoint, "its note states another tree than its row")
	default:
		v.marks = append(v.marks, mark{stated, BreakCheckpoint})
		return nil
	}
	v.marks = append(v.marks, mark{statement{size: latest.Size, root: latest.Root, versionOne: -1}, BreakCheckpoint})
	return nil
}

// leaves reads every leaf with its entry, and grows the tree anew from them. Each page
// begins with the last leaf of the page before, and there is room for one behind the
// last: who owns the tables can put two rows in one place, and a limit would hide the
// second.
func (v *verification) leaves() error {
	for v.report.Sealed < v.target {
		from, before := max(v.report.Sealed-1, 0), v.report.Sealed
		page, err := v.log.Leaves(v.ctx, from, int(min(repo.MaxPageSize, v.target-from+1)))
		if err != nil {
			return err
		}
		if before > 0 && len(page) > 0 && page[0].Sequence == from {
			page = page[1:]
		}
		for _, leaf := range page {
			if leaf.Sequence < v.report.Sealed {
				v.found(Break{Kind: BreakTwice, Sequence: leaf.Sequence, EntryID: leaf.EntryID})
				continue
			}
			for v.report.Sealed < min(leaf.Sequence, v.target) {
				// The tree needs something in its place: everything behind it
				// is wrong, and said to be so once.
				v.found(Break{Kind: BreakLeaf, Sequence: v.report.Sealed})
				if err := v.grow([32]byte{}); err != nil {
					return err
				}
			}
			if v.report.Sealed == v.target {
				break
			}
			if err := v.leaf(leaf); err != nil {
				return err
			}
			if err := v.grow(leaf.Hash); err != nil {
				return err
			}
		}
		if v.report.Sealed == before { // none are left, or one place has a page of them
			v.wrong(BreakCheckpoint, "it is about %d leaves, there are %d", v.target, v.report.Sealed)
			v.target = v.report.Sealed
			return nil
		}
		if err := v.compareHashes(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) leaf(leaf repo.AuditLeaf) error {
	at := Break{Sequence: leaf.Sequence, EntryID: leaf.EntryID}
	if _, ok := pruneDetails(leaf); ok {
		v.pruneLeaves[leaf.Sequence] = entryHash(leaf)
	}
	bound := leaf.Version != 1
	if !bound {
		v.versionOne++
	}
	if bound && (leaf.Version != 2 || keptHash(leaf.EntryID, leaf.OccurredAt, leaf.Kept) != leaf.Hash) {
		at.Kind = BreakKept
		v.found(at)
		bound = false
	}
	switch {
	case leaf.Entry == nil && leaf.PrunedBy.IsZero():
		at.Kind = BreakMissing
		v.found(at)
	case leaf.Entry == nil:
		prune, err := v.prune(leaf.PrunedBy)
		if err != nil {
			return err
		}
		if at.Detail = uncovered(prune, leaf, bound); at.Detail != "" {
			at.Kind = BreakPrune
			v.found(at)
			return nil
		}
		v.report.Pruned++
		prune.Entries++
		if !bound {
			v.report.Unbound++
		}
	case leaf.Entry.ID != leaf.EntryID || !leaf.Entry.OccurredAt.Equal(leaf.OccurredAt) || entryHash(leaf) != leaf.Hash:
		at.Kind = BreakContent
		v.found(at)
	}
	return nil
}

func entryHash(leaf repo.AuditLeaf) [32]byte {
	if leaf.Version == 1 {
		return leafHashOne(*leaf.Entry)
	}
	return LeafHash(*leaf.Entry)
}

// uncovered says why the prune does not cover the leaf's entry, or nothing. Of a
// leaf that keeps nothing only its time can be asked, and nothing bears that out.
func uncovered(prune *Prune, leaf repo.AuditLeaf, bound bool) string {
	switch {
	case prune.Sequence < 0:
		return "the leaf names " + prune.EntryID.String() + ", which is not a sealed prune"
	case !bound && !leaf.OccurredAt.Before(prune.Before) || bound && !prune.Covers(leaf.OccurredAt, leaf.Kept):
		return "it is not within the bounds of the prune " + prune.EntryID.String()
	case bound && leaf.Sequence >= prune.Sequence:
		return "it was sealed after the prune " + prune.EntryID.String()
	}
	return ""
}

// prune returns the prune that an entry tells of. That the entry is what was sealed
// is verified with its own leaf, and provePrunes compares the two.
func (v *verification) prune(id repo.ID) (*Prune, error) {
	if known := v.prunes[id]; known != nil {
		return known, nil
	}
	prune := &Prune{EntryID: id, Sequence: -1}
	// Whoever may record can give an entry the id of a prune, and an earlier time; it
	// is sealed behind that.
	for {
		leaf, err := v.log.FirstLeaf(v.ctx, id)
		if err == nil {
			if details, ok := pruneDetails(leaf); ok {
				prune.Sequence, prune.OccurredAt, prune.Actor = leaf.Sequence, leaf.OccurredAt, leaf.Entry.Actor
				prune.AuditPruneDetails = details
				prune.leaf = entryHash(leaf)
			}
			break
		}
		if !errors.Is(err, repo.ErrNotFound) {
			return nil, err
		}
		// It may be under way: a sealer has not come to it yet.
		if v.patience <= 0 {
			break
		}
		v.patience -= prunePause
		select {
		case <-v.ctx.Done():
			return nil, v.ctx.Err()
		case <-time.After(prunePause):
		}
	}
	v.prunes[id] = prune
	return prune, nil
}

func pruneDetails(leaf repo.AuditLeaf) (repo.AuditPruneDetails, bool) {
	if leaf.Entry == nil || leaf.Entry.Type != repo.EventAuditPruned {
		return repo.AuditPruneDetails{}, false
	}
	details, err := repo.ParsePruneDetails(leaf.Entry.Details)
	return details, err == nil
}

// later goes on to the checkpoint held, where that is behind the one that was the
// latest.
func (v *verification) later() error {
	if v.held > v.target && v.report.Sealed == v.target {
		if err := v.latest(); err != nil {
			return err
		}
		if err := v.leaves(); err != nil {
			return err
		}
	}
	return v.provePrunes()
}

// provePrunes proves of the prunes that were sealed behind the leaves that were read
// that they are in a later checkpoint, whose tree these leaves begin. Leaves are not
// read up to there: among them could be others that still later prunes removed, and
// so on for as long as somebody prunes.
func (v *verification) provePrunes() error {
	var later []*Prune
	for _, prune := range v.prunes {
		if prune.Sequence >= v.report.Sealed {
			later = append(later, prune)
		} else if prune.Sequence >= 0 && v.pruneLeaves[prune.Sequence] != prune.leaf {
			v.found(Break{Kind: BreakPrune, Sequence: prune.Sequence, EntryID: prune.EntryID, Detail: "the prune is not what its place in the log has"})
		}
	}
	if len(later) == 0 {
		return nil
	}
	root, err := tlog.TreeHash(v.report.Sealed, &v.tree)
	if err != nil {
		return err
	}
	latest, err := v.log.Checkpoint(v.ctx)
	if err != nil && !errors.Is(err, repo.ErrNotFound) {
		return err
	}
	stated, err := parseStatement(latest.Note, v.options.Verifier)
	if err == nil {
		err = stated.about(v.identity)
	}
	if err != nil {
		v.wrong(BreakCheckpoint, "%v", err)
		return nil
	}
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes, err := v.log.Hashes(v.ctx, indexes)
		return toHashes(hashes), err
	})
	if v.report.Sealed > 0 && stated.size > v.report.Sealed {
		proof, err := tlog.ProveTree(stated.size, v.report.Sealed, reader)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if err != nil || tlog.CheckTree(proof, stated.size, stated.root, v.report.Sealed, root) != nil {
			v.wrong(BreakCheckpoint, "the tree of %d leaves does not begin with that of %d", stated.size, v.report.Sealed)
			return nil //nolint:nilerr // it is a finding, not a failure to read
		}
	}
	for _, prune := range later {
		wrong := Break{Kind: BreakPrune, Sequence: prune.Sequence, EntryID: prune.EntryID, Detail: "the prune is in no checkpoint"}
		if prune.Sequence >= stated.size {
			v.found(wrong)
			continue
		}
		proof, err := tlog.ProveRecord(stated.size, prune.Sequence, reader)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if err != nil || tlog.CheckRecord(proof, stated.size, stated.root, prune.Sequence, prune.leaf) != nil {
			v.found(wrong)
		}
	}
	return nil
}

// grow adds a leaf to the tree, and compares it with the checkpoints at its size. Of
// the tree only its right edge is needed, but the hashes since the last comparison
// are kept to be compared.
func (v *verification) grow(leaf [32]byte) error {
	added, err := tlog.StoredHashesForRecordHash(v.report.Sealed, leaf, &v.tree)
	if err != nil {
		return err
	}
	v.tree.added = append(v.tree.added, added...)
	v.report.Sealed++
	for _, at := range v.marks {
		if v.report.Sealed != at.size {
			continue
		}
		root, err := tlog.TreeHash(at.size, &v.tree)
		if err != nil {
			return err
		}
		if root != at.root {
			v.wrong(at.kind, "its root is not that of the leaves")
		}
		if at.versionOne >= 0 && at.versionOne != v.versionOne {
			v.wrong(at.kind, "it states %d leaves of version 1, there are %d", at.versionOne, v.versionOne)
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

// compareHeld: the rest was compared when the tree had its size.
func (v *verification) compareHeld() error {
	if v.held > v.report.Sealed {
		v.wrong(BreakHeld, "it is about %d leaves, there are %d", v.held, v.report.Sealed)
	}
	return nil
}

// beyond looks for leaves behind the latest checkpoint: a seal makes both at once.
func (v *verification) beyond() error {
	for range 2 {
		latest, err := v.log.Checkpoint(v.ctx)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if leaf := v.firstBeyond; leaf != nil && leaf.Sequence >= latest.Size {
			v.found(Break{Kind: BreakCheckpoint, Sequence: leaf.Sequence, EntryID: leaf.EntryID, Detail: "the leaf is in no checkpoint"})
			return nil
		}
		leaves, err := v.log.Leaves(v.ctx, latest.Size, 1)
		if err != nil || len(leaves) == 0 {
			return err
		}
		v.firstBeyond = &leaves[0] // or it was sealed between the two
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
