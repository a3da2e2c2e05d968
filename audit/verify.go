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

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// BreakKind is the kind of a break: how the trail differs from what was sealed.
type BreakKind string

// The kinds of breaks.
const (
	// BreakContent: an entry differs from what was sealed.
	BreakContent BreakKind = "content changed"
	// BreakMissing: an entry is missing, and its leaf names no prune.
	BreakMissing BreakKind = "entry missing"
	// BreakStray: an entry was inserted without being recorded.
	BreakStray BreakKind = "unknown entry"
	// BreakPrune: an entry is missing, and the prune that its leaf names is not in
	// the log, or does not cover it.
	BreakPrune BreakKind = "not covered by a prune"
	// BreakLeaf: a leaf is missing.
	BreakLeaf BreakKind = "leaf missing"
	// BreakTwice: there are two leaves with one index, or two entries of one leaf.
	BreakTwice BreakKind = "sealed twice"
	// BreakKept: what a leaf keeps of its entry differs from what was sealed.
	BreakKept BreakKind = "leaf changed"
	// BreakHash: a hash of the tree differs from its leaves' hash.
	BreakHash BreakKind = "tree hash changed"
	// BreakCheckpoint: the checkpoint is malformed, not signed by the key, or
	// of another tree or log; or some leaves are in no checkpoint.
	BreakCheckpoint BreakKind = "checkpoint wrong"
	// BreakHeld: the log differs from a checkpoint that is kept elsewhere.
	BreakHeld BreakKind = "differs from the checkpoint held"
	// BreakWaiting: entries have waited too long to be sealed.
	BreakWaiting BreakKind = "unsealed too long"
)

// Break is a difference between the trail and what was sealed.
type Break struct {
	Kind BreakKind `json:"kind"`
	// Sequence is the leaf's, or -1 if the break concerns no leaf.
	Sequence int64 `json:"sequence"`
	// EntryID is zero if the break concerns no entry.
	EntryID repo.ID `json:"entry_id"`
	Detail  string  `json:"detail,omitempty"`
}

// Report is the result of Verify.
type Report struct {
	// Sealed is the number of leaves that were verified: all of the checkpoint's.
	// Pruned is the number of leaves whose entry was removed by a prune that is
	// in the log and covers it.
	Sealed int64 `json:"sealed"`
	Pruned int64 `json:"pruned"`
	// Erased is the number of entries with an erased field, whose value can no
	// longer be verified.
	Erased int64 `json:"erased"`
	// Prunes are the prunes that removed entries, in the order of the log. Their
	// bounds cover the removed entries; whether the prunes were legitimate is for the
	// reader to judge.
	Prunes []Prune `json:"prunes"`
	// Waiting is the number of entries that are not sealed yet, up to 10,000.
	Waiting int64 `json:"waiting"`
	// Breaks are the breaks found, up to VerifyOptions.MaxBreaks.
	Breaks []Break `json:"breaks"`
	// More reports whether there were more breaks.
	More bool `json:"more,omitempty"`
}

// Intact reports whether no break was found. It says nothing about the report of a
// Verify that returned an error, which is incomplete.
func (r Report) Intact() bool { return len(r.Breaks) == 0 && !r.More }

// Prune is a prune whose entry is in the log.
type Prune struct {
	EntryID    repo.ID   `json:"entry_id"`
	Sequence   int64     `json:"sequence"`
	OccurredAt time.Time `json:"occurred_at"`
	Actor      string    `json:"actor,omitempty"`
	auditlog.PruneDetails
	// Entries is the number of entries that it removed.
	Entries int64 `json:"entries"`

	leaf tlog.Hash // of the stored entry
}

// VerifyOptions say what to verify against. The zero value verifies the trail against
// the log in the same database.
type VerifyOptions struct {
	// Verifier has the public key of the signature that the latest checkpoint must
	// have. Nil: signatures are not checked.
	Verifier note.Verifier
	// Held is a checkpoint that was kept elsewhere. Nil: none.
	Held []byte
	// MaxWaiting is how long an entry may wait to be sealed. Zero: 1 h. Not negative.
	MaxWaiting time.Duration
	// MaxPruneWait is how long to wait until the entry of a concurrent prune is
	// sealed; before that, the entries that it removed count as breaks. Zero: 30 s.
	// Negative: no wait.
	MaxPruneWait time.Duration
	// MaxBreaks bounds the breaks in the report. Zero: 1,000. Not negative.
	MaxBreaks int
}

// Verify reads the log up to its latest checkpoint, and the trail, and lists every
// break. Its memory is bounded except for the prunes in the log. Entries may be
// recorded, sealed and pruned at the same time. Breaks are not errors: see
// Report.Intact. Errors: repo.InvalidError of the options; ErrCheckpoint if Held is
// malformed or not signed by Verifier's key; errors of reading.
func Verify(ctx context.Context, log auditlog.Log, options VerifyOptions) (Report, error) {
	if err := cmp.Or(
		setting("MaxWaiting", &options.MaxWaiting, time.Hour, 0),
		setting("MaxBreaks", &options.MaxBreaks, 1000, 0),
	); err != nil {
		return Report{}, err
	}
	options.MaxPruneWait = cmp.Or(options.MaxPruneWait, 30*time.Second)
	v := &verification{
		ctx: ctx, log: log, options: options, prunes: map[repo.ID]*Prune{}, pruneLeaves: map[int64]tlog.Hash{},
		patience: options.MaxPruneWait,
	}
	for _, step := range []func() error{
		v.identify, v.hold, v.latest, v.leaves, v.later, v.compareHeld, v.beyond, v.strays,
		v.waiting,
	} {
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
	ctx     context.Context //nolint:containedctx // lives as long as one call
	log     auditlog.Log
	options VerifyOptions
	report  Report

	identity repo.ID
	// target is the number of leaves to read: the size of the latest checkpoint.
	target int64
	marks  []mark
	held   int64 // the size of VerifyOptions.Held
	tree   growingTree

	// prunes maps the ids of entries to their prunes. A negative Sequence means
	// that the entry is not a prune's.
	prunes   map[repo.ID]*Prune
	patience time.Duration // how long to wait for them in total
	// pruneLeaves are the hashes of prune entries that were read with their own
	// leaves, by the sequence of the leaf.
	pruneLeaves map[int64]tlog.Hash
	// firstBeyond is a leaf after what was the latest checkpoint.
	firstBeyond *auditlog.Leaf
}

// prunePause is the time between two looks for a prune entry that is not sealed
// yet.
const prunePause = 50 * time.Millisecond

// mark is what a checkpoint states about the tree at its size.
type mark struct {
	statement
	kind BreakKind
}

// found adds a break to the report. A sequence of -1 and a zero id mean none.
func (v *verification) found(kind BreakKind, sequence int64, entryID repo.ID, detail string) {
	if len(v.report.Breaks) >= v.options.MaxBreaks {
		v.report.More = true
		return
	}
	v.report.Breaks = append(v.report.Breaks, Break{Kind: kind, Sequence: sequence, EntryID: entryID, Detail: detail})
}

// wrong adds a break that concerns no particular leaf or entry.
func (v *verification) wrong(kind BreakKind, detail string, arguments ...any) {
	v.found(kind, -1, repo.ID{}, fmt.Sprintf(detail, arguments...))
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

// latest reads the latest checkpoint. Leaves are read only up to its size, since a
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
	stated, err := v.statement(latest)
	switch {
	case err != nil:
		v.wrong(BreakCheckpoint, "%v", err)
	case stated.size != latest.Size || stated.root != latest.Root:
		v.wrong(BreakCheckpoint, "its note states another tree than its row")
	default:
		v.marks = append(v.marks, mark{stated, BreakCheckpoint})
		return nil
	}
	v.marks = append(v.marks, mark{statement{size: latest.Size, root: latest.Root}, BreakCheckpoint})
	return nil
}

// statement reads a checkpoint, which must be one of this log.
func (v *verification) statement(checkpoint auditlog.Checkpoint) (statement, error) {
	stated, err := parseStatement(checkpoint.Note, v.options.Verifier)
	if err != nil {
		return statement{}, err
	}
	return stated, stated.about(v.identity)
}

// leaves reads every leaf with its entry, and rebuilds the tree from them. Each
// page begins with the last leaf of the previous page and has room for one more:
// the owner of the tables can give two rows the same sequence, and a limit would
// hide the second.
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
				v.found(BreakTwice, leaf.Sequence, leaf.EntryID, "")
				continue
			}
			for v.report.Sealed < min(leaf.Sequence, v.target) {
				// The tree needs a placeholder: everything after it is wrong,
				// which is reported once.
				v.found(BreakLeaf, v.report.Sealed, repo.ID{}, "")
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
		if v.report.Sealed == before { // no leaves are left, or one sequence fills a page
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

func (v *verification) leaf(leaf auditlog.Leaf) error {
	if _, ok := pruneDetails(leaf); ok {
		v.pruneLeaves[leaf.Sequence] = LeafHash(*leaf.Entry)
	}
	kept := keptHash(leaf.EntryID, leaf.OccurredAt, leaf.Kept) == leaf.Hash
	if !kept {
		v.found(BreakKept, leaf.Sequence, leaf.EntryID, "")
	}
	switch {
	case leaf.Entry == nil && leaf.PrunedBy.IsZero():
		v.found(BreakMissing, leaf.Sequence, leaf.EntryID, "")
	case leaf.Entry == nil && kept:
		prune, err := v.prune(leaf.PrunedBy)
		if err != nil {
			return err
		}
		if reason := uncovered(prune, leaf); reason != "" {
			v.found(BreakPrune, leaf.Sequence, leaf.EntryID, reason)
			return nil
		}
		v.report.Pruned++
		prune.Entries++
	case leaf.Entry == nil: // what it kept is not known: found above
	case leaf.Entry.ID != leaf.EntryID || LeafHash(*leaf.Entry) != leaf.Hash:
		v.found(BreakContent, leaf.Sequence, leaf.EntryID, "")
	case slices.ContainsFunc(leaf.Entry.Salts, rules.IsErased):
		v.report.Erased++
	}
	return nil
}

// uncovered says why the prune does not cover the leaf's entry, or nothing.
func uncovered(prune *Prune, leaf auditlog.Leaf) string {
	switch {
	case prune.Sequence < 0:
		return "the leaf names " + prune.EntryID.String() + ", which is not a sealed prune"
	case !rules.Covers(prune.PruneDetails, leaf.OccurredAt, leaf.Kept):
		return "it is not within the bounds of the prune " + prune.EntryID.String()
	case leaf.Sequence >= prune.Sequence:
		return "it was sealed after the prune " + prune.EntryID.String()
	}
	return ""
}

// prune returns the prune that an entry describes. The entry is verified with its
// own leaf, and provePrunes compares the two.
func (v *verification) prune(id repo.ID) (*Prune, error) {
	if known := v.prunes[id]; known != nil {
		return known, nil
	}
	prune := &Prune{EntryID: id, Sequence: -1}
	for {
		leaf, err := v.log.Leaf(v.ctx, id)
		if err == nil {
			if details, ok := pruneDetails(leaf); ok {
				prune.Sequence, prune.OccurredAt, prune.Actor = leaf.Sequence, leaf.OccurredAt, leaf.Entry.Actor
				prune.PruneDetails = details
				prune.leaf = LeafHash(*leaf.Entry)
			}
			break
		}
		if !errors.Is(err, repo.ErrNotFound) {
			return nil, err
		}
		// The prune may be in progress: its entry is not sealed yet.
		if v.patience <= 0 {
			break
		}
		v.patience -= prunePause
		if !sleep(v.ctx, prunePause) {
			return nil, v.ctx.Err()
		}
	}
	v.prunes[id] = prune
	return prune, nil
}

func pruneDetails(leaf auditlog.Leaf) (auditlog.PruneDetails, bool) {
	if leaf.Entry == nil || leaf.Entry.Type != EventAuditPruned {
		return auditlog.PruneDetails{}, false
	}
	details, err := rules.ParsePruneDetails(leaf.Entry.Details)
	return details, err == nil
}

// later continues up to VerifyOptions.Held if that is newer than what was the
// latest checkpoint.
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

// provePrunes verifies prunes whose entries were sealed after the leaves that were
// read: they must be in a later checkpoint, and its tree must begin with these
// leaves. The leaves up to there are not read: later prunes may have removed some
// of their entries, and so on as long as prunes go on.
func (v *verification) provePrunes() error {
	var later []*Prune
	for _, prune := range v.prunes {
		if prune.Sequence >= v.report.Sealed {
			later = append(later, prune)
		} else if prune.Sequence >= 0 && v.pruneLeaves[prune.Sequence] != prune.leaf {
			v.found(BreakPrune, prune.Sequence, prune.EntryID, "the prune is not what its place in the log has")
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
	stated, err := v.statement(latest)
	if err != nil {
		v.wrong(BreakCheckpoint, "%v", err)
		return nil
	}
	reader := hashesOf(v.ctx, v.log)
	if v.report.Sealed > 0 && stated.size > v.report.Sealed {
		proof, err := tlog.ProveTree(stated.size, v.report.Sealed, reader)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if err != nil || tlog.CheckTree(proof, stated.size, stated.root, v.report.Sealed, root) != nil {
			v.wrong(BreakCheckpoint, "the tree of %d leaves does not begin with the tree of %d", stated.size, v.report.Sealed)
			return nil //nolint:nilerr // a finding, not a failure to read
		}
	}
	for _, prune := range later {
		const wrong = "the prune is in no checkpoint"
		if prune.Sequence >= stated.size {
			v.found(BreakPrune, prune.Sequence, prune.EntryID, wrong)
			continue
		}
		proof, err := tlog.ProveRecord(stated.size, prune.Sequence, reader)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if err != nil || tlog.CheckRecord(proof, stated.size, stated.root, prune.Sequence, prune.leaf) != nil {
			v.found(BreakPrune, prune.Sequence, prune.EntryID, wrong)
		}
	}
	return nil
}

// grow adds a leaf to the tree, and compares the tree with the checkpoints of its
// size. The tree needs only its right edge; the hashes since the last comparison
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
			v.wrong(at.kind, "its root does not match the leaves")
		}
	}
	return nil
}

// compareHashes compares the stored hashes with the tree's, then drops all but
// the tree's right edge.
func (v *verification) compareHashes() error {
	indexes := make([]int64, len(v.tree.added))
	for i := range indexes {
		indexes[i] = v.tree.first + int64(i)
	}
	if len(indexes) > 0 {
		stored, err := v.log.Hashes(v.ctx, indexes)
		if errors.Is(err, repo.ErrNotFound) {
			v.wrong(BreakHash, "one of the hashes %d to %d is gone", indexes[0], indexes[len(indexes)-1])
		} else if err != nil {
			return err
		}
		for i, hash := range stored {
			if hash != v.tree.added[i] {
				v.wrong(BreakHash, "hash %d", indexes[i])
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

// edgeIndexes returns the indexes of the hashes that a tree grows from, one for
// each of its perfect subtrees.
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

// compareHeld checks that the log is not shorter than VerifyOptions.Held. grow has
// compared the rest.
func (v *verification) compareHeld() error {
	if v.held > v.report.Sealed {
		v.wrong(BreakHeld, "it is about %d leaves, there are %d", v.held, v.report.Sealed)
	}
	return nil
}

// beyond looks for leaves after the latest checkpoint: a seal writes both at once.
func (v *verification) beyond() error {
	for range 2 {
		latest, err := v.log.Checkpoint(v.ctx)
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return err
		}
		if leaf := v.firstBeyond; leaf != nil && leaf.Sequence >= latest.Size {
			v.found(BreakCheckpoint, leaf.Sequence, leaf.EntryID, "the leaf is in no checkpoint")
			return nil
		}
		leaves, err := v.log.Leaves(v.ctx, latest.Size, 1)
		if err != nil || len(leaves) == 0 {
			return err
		}
		v.firstBeyond = &leaves[0] // unless it was sealed between the two reads
	}
	return nil
}

func (v *verification) strays() error {
	strays, err := v.log.Strays(v.ctx, repo.MaxPageSize)
	if err != nil {
		return err
	}
	for _, id := range strays {
		v.found(BreakStray, -1, id, "")
	}
	lost, err := v.log.Lost(v.ctx, repo.MaxPageSize)
	for _, id := range lost {
		v.found(BreakMissing, -1, id, "it waited to be sealed")
	}
	return err
}

func (v *verification) waiting() error {
	waiting, err := v.log.Waiting(v.ctx, limits.DefaultAuditCount)
	if err != nil {
		return err
	}
	v.report.Waiting = waiting.Entries
	if waiting.Entries > 0 && waiting.Age > v.options.MaxWaiting {
		v.wrong(BreakWaiting, "since %s", waiting.Oldest.Format(time.RFC3339))
	}
	return nil
}
