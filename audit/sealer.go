package audit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// SealerOptions configure a Sealer. The zero value is the default.
type SealerOptions struct {
	// Origin is the name in the origin of unsigned checkpoints, to which the log's
	// identity is appended: see the function Origin. Empty: DefaultOrigin. With a
	// Signer the name is the key's, and this field must be empty or the same.
	Origin string
	// Signer signs checkpoints (Ed25519: note.NewSigner). Nil: they are not
	// signed, and anyone who can write to the database can replace them.
	Signer note.Signer
	// Batch bounds the entries of one seal, at most
	// auditlog.MaxSealEntries. Zero: 5,000.
	Batch int
	// Interval is the pause of Run when there is nothing to seal. After failures in a
	// row it doubles, up to 30 s (or Interval, if that is longer), and is jittered.
	// Zero: 1 s.
	Interval time.Duration
	// Publish is called with each new checkpoint, to keep it where the database's
	// owner cannot change it. Its errors are logged; the next checkpoint covers
	// everything that this one does.
	Publish func(ctx context.Context, checkpoint auditlog.Checkpoint) error
	// Logger logs failures of Run and Publish. Nil: nothing is logged.
	Logger *slog.Logger
}

// Sealer adds recorded entries to the log, without delaying the writers that record
// them. Any number may run; they work one at a time. It is safe for concurrent use.
type Sealer struct {
	log     auditlog.Log
	options SealerOptions
}

// NewSealer returns a sealer. Errors: repo.InvalidError of the log, if it is nil, or the
// options.
func NewSealer(log auditlog.Log, options SealerOptions) (*Sealer, error) {
	if log == nil {
		return nil, &repo.InvalidError{Field: "log", Reason: "is nil"}
	}
	err := cmp.Or(
		setting("Batch", &options.Batch, 5000, auditlog.MaxSealEntries),
		setting("Interval", &options.Interval, time.Second, 0),
	)
	if err != nil {
		return nil, err
	}
	if options.Origin == "" {
		options.Origin = DefaultOrigin
		if options.Signer != nil {
			options.Origin = options.Signer.Name()
		}
	}
	if options.Signer != nil && options.Origin != options.Signer.Name() {
		return nil, &repo.InvalidError{Field: "options.Origin", Reason: "is not the signer's name"}
	}
	if strings.ContainsFunc(options.Origin, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		return nil, &repo.InvalidError{Field: "options.Origin", Reason: "is not one line of text"}
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	return &Sealer{log: log, options: options}, nil
}

// Run seals until ctx ends. It logs each failure, whatever the error, and retries:
// see SealerOptions.Interval. A role that may not seal is such a failure.
func (s *Sealer) Run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		_, more, err := s.sealOnce(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			s.options.Logger.WarnContext(ctx, "audit: cannot seal; will retry", "error", err)
			sleep(ctx, backoff(failures, s.options.Interval, max(s.options.Interval, defaultMaxBackoff)))
			continue
		case !more:
			sleep(ctx, s.options.Interval)
		}
		failures = 0
	}
}

// SealOnce seals at most one batch of entries, with at most auditlog.MaxSealBytes of
// details, and returns their number. While another sealer is at work it is zero.
func (s *Sealer) SealOnce(ctx context.Context) (int, error) {
	sealed, _, err := s.sealOnce(ctx)
	return sealed, err
}

func (s *Sealer) sealOnce(ctx context.Context) (sealed int, more bool, err error) {
	var checkpoint auditlog.Checkpoint
	sealed, err = s.log.Seal(ctx, s.options.Batch, func(unsealed auditlog.Unsealed,
		hashes auditlog.HashReader,
	) (auditlog.Seal, error) {
		seal, err := s.seal(unsealed, hashes)
		checkpoint, more = seal.Checkpoint, unsealed.More
		return seal, err
	})
	if errors.Is(err, repo.ErrContention) {
		return 0, false, nil
	}
	if err != nil || sealed == 0 {
		return 0, false, err
	}
	if s.options.Publish != nil {
		if err := s.options.Publish(ctx, checkpoint); err != nil {
			s.options.Logger.WarnContext(ctx, "audit: cannot publish a checkpoint", "size", checkpoint.Size, "error", err)
		}
	}
	return sealed, more, nil
}

// seal computes the leaves, the tree's new hashes and the checkpoint.
func (s *Sealer) seal(unsealed auditlog.Unsealed, hashes auditlog.HashReader) (auditlog.Seal, error) {
	tree := &growingTree{stored: hashes, first: tlog.StoredHashCount(unsealed.Size)}
	seal := auditlog.Seal{
		FirstHash: tree.first, Leaves: make([][32]byte, len(unsealed.Entries)),
		Hidden: make([][32]byte, len(unsealed.Entries)),
	}
	size := unsealed.Size
	for i, entry := range unsealed.Entries {
		kept := keptOf(entry)
		seal.Leaves[i], seal.Hidden[i] = keptHash(entry.ID, entry.OccurredAt, kept), kept.Hidden
		added, err := tlog.StoredHashesForRecordHash(size, seal.Leaves[i], tree)
		if err != nil {
			return auditlog.Seal{}, err
		}
		tree.added = append(tree.added, added...)
		size++
	}
	root, err := tlog.TreeHash(size, tree)
	if err != nil {
		return auditlog.Seal{}, err
	}
	seal.Hashes = renamed[[32]byte](tree.added)
	stated := statement{origin: Origin(s.options.Origin, unsealed.Identity), size: size, root: root}
	seal.Checkpoint, err = newCheckpoint(stated, s.options.Signer)
	return seal, err
}

// growingTree is the stored hashes, followed by added ones.
type growingTree struct {
	stored auditlog.HashReader
	first  int64 // the index of added[0]
	added  []tlog.Hash
	read   map[int64]tlog.Hash
}

// ReadHashes implements tlog.HashReader.
func (g *growingTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	var missing []int64
	for i, index := range indexes {
		if index >= g.first {
			found[i] = g.added[index-g.first]
		} else if hash, read := g.read[index]; read {
			found[i] = hash
		} else {
			missing = append(missing, index)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	hashes, err := g.stored(missing)
	if err != nil {
		return nil, err
	}
	if g.read == nil {
		g.read = map[int64]tlog.Hash{}
	}
	for i, index := range missing {
		g.read[index] = hashes[i]
	}
	return g.ReadHashes(indexes)
}
