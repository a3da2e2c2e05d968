package audit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
)

// SealerOptions configure a Sealer. The zero value is the default.
type SealerOptions struct {
	// Origin names the log in its checkpoints. Empty: DefaultOrigin.
	Origin string
	// Signer signs checkpoints (Ed25519: note.NewSigner). Nil: they are not
	// signed, and who can write to the database can write them anew.
	Signer note.Signer
	// Batch bounds the entries of one seal, at most 10,000. Zero: 5,000.
	Batch int
	// Interval is the pause when nothing waits to be sealed. Zero: 1 s.
	Interval time.Duration
	// Publish is given each new checkpoint, to keep it where the database's
	// owner cannot change it. Its errors are logged; the next checkpoint
	// states all that this one did.
	Publish func(ctx context.Context, checkpoint repo.AuditCheckpoint) error
	// Logger receives what Run does by itself. Nil: nothing is logged.
	Logger *slog.Logger
}

// Sealer seals recorded entries into the log, off the path of those who record.
// Any number may run; one at a time works. It is safe for concurrent use.
type Sealer struct {
	log     repo.AuditLog
	options SealerOptions
}

// NewSealer returns a sealer. Errors: repo.InvalidError of the options.
func NewSealer(log repo.AuditLog, options SealerOptions) (*Sealer, error) {
	switch {
	case options.Batch < 0 || options.Batch > 10_000:
		return nil, &repo.InvalidError{Field: "options.Batch", Reason: "is not between 0 and 10,000"}
	case options.Interval < 0:
		return nil, &repo.InvalidError{Field: "options.Interval", Reason: "is negative"}
	}
	if options.Batch == 0 {
		options.Batch = 5000
	}
	if options.Interval == 0 {
		options.Interval = time.Second
	}
	if options.Origin == "" {
		options.Origin = DefaultOrigin
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sealer{log: log, options: options}, nil
}

// Run seals until ctx ends. A database that is away is tried again.
func (s *Sealer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		sealed, err := s.SealOnce(ctx)
		if err != nil && ctx.Err() == nil {
			s.options.Logger.WarnContext(ctx, "audit: cannot seal, trying on", "error", err)
		}
		if err == nil && sealed == s.options.Batch { // there may be more
			continue
		}
		select {
		case <-time.After(s.options.Interval):
		case <-ctx.Done():
		}
	}
}

// SealOnce seals up to a batch of what waits, and returns how many it were. While
// another sealer is at work it is none.
func (s *Sealer) SealOnce(ctx context.Context) (int, error) {
	var checkpoint repo.AuditCheckpoint
	sealed, err := s.log.Seal(ctx, s.options.Batch, func(unsealed repo.AuditUnsealed, hashes repo.HashReader) (repo.AuditSeal, error) {
		seal, err := s.seal(unsealed, hashes)
		checkpoint = seal.Checkpoint
		return seal, err
	})
	if errors.Is(err, repo.ErrContention) {
		return 0, nil
	}
	if err != nil || sealed == 0 {
		return 0, err
	}
	if s.options.Publish != nil {
		if err := s.options.Publish(ctx, checkpoint); err != nil {
			s.options.Logger.WarnContext(ctx, "audit: cannot publish a checkpoint", "size", checkpoint.Size, "error", err)
		}
	}
	return sealed, nil
}

// seal computes the leaves, the tree's new hashes and the checkpoint.
func (s *Sealer) seal(unsealed repo.AuditUnsealed, hashes repo.HashReader) (repo.AuditSeal, error) {
	tree := &growingTree{stored: hashes, first: tlog.StoredHashCount(unsealed.Size)}
	seal := repo.AuditSeal{FirstHash: tree.first, Leaves: make([][32]byte, len(unsealed.Entries))}
	size := unsealed.Size
	for i, entry := range unsealed.Entries {
		seal.Leaves[i] = LeafHash(entry)
		added, err := tlog.StoredHashesForRecordHash(size, seal.Leaves[i], tree)
		if err != nil {
			return repo.AuditSeal{}, err
		}
		tree.added = append(tree.added, added...)
		size++
	}
	root, err := tlog.TreeHash(size, tree)
	if err != nil {
		return repo.AuditSeal{}, err
	}
	seal.Hashes = fromHashes(tree.added)
	seal.Checkpoint, err = newCheckpoint(s.options.Origin, size, root, s.options.Signer)
	return seal, err
}

// growingTree is the stored hashes with those that were added behind them.
type growingTree struct {
	stored repo.HashReader
	first  int64 // the index of added[0]
	added  []tlog.Hash
	read   map[int64]tlog.Hash
}

// ReadHashes is tlog.HashReader's.
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
