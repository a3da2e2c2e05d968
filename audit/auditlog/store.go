package auditlog

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// Store is the part of a store that package audit uses to write in the background, and to prune,
// hold and seal the trail. Of returns the Store of a store.
type Store interface {
	// Sink opens a sink. Errors: ErrUnavailable, ErrPermission, ErrSchema.
	Sink(ctx context.Context) (Sink, error)
	// Prune removes old entries in bounded batches, and records an entry about the
	// prune: see PruneDetails. Entries on hold, entries that are not sealed
	// yet, and entries about prunes and gaps are not removed. In PostgreSQL only the
	// owner of the tables may prune. Further errors: InvalidError for more than
	// MaxHeldInPrune holds; ErrPermission.
	Prune(ctx context.Context, prune Prune) (Pruned, error)
	// Hold protects entries from being pruned: all entries that exist when it returns
	// stay, also if a prune is under way. Release ends the hold. Both may be repeated.
	// In PostgreSQL only the owner of the tables may hold and release. Further errors:
	// ErrPermission.
	Hold(ctx context.Context, hold Hold) error
	Release(ctx context.Context, hold Hold) error
	Holds(ctx context.Context) ([]Hold, error)
	// Doctor checks the trail's tables, triggers, rights and sealing, and says how to
	// correct what is wrong. In memory there is nothing to check.
	Doctor(ctx context.Context) ([]Finding, error)

	Log
}

// Sink is where package audit's Writer writes entries. It has a connection of
// its own, which nothing else uses. One goroutine uses a sink at a time.
type Sink interface {
	// Record records entries like Audit.Record, and returns how many were
	// new. Further errors: ErrUnavailable, ErrContention, ErrUnknownOutcome: the
	// batch may be recorded again; ErrInvalid, ErrConflict: one of the entries
	// is refused.
	Record(ctx context.Context, entries []repo.AuditEntry) (Recorded, error)
	// Quarantine stores an entry that cannot be recorded. It may be repeated; other
	// entries with the same id are stored beside it.
	Quarantine(ctx context.Context, poison Poison) error
	// Close releases the connection.
	Close() error
}

// Log stores the sealed log. Package audit computes its contents: see
// audit.Sealer.
type Log interface {
	// Identity returns a random id of the database, generated with its tables. A
	// copy of a database has the same identity.
	Identity(ctx context.Context) (repo.ID, error)
	// Seal passes up to limit unsealed entries to fn and stores its result, in one
	// transaction. A call gets at most MaxSealEntries entries, with at most
	// MaxSealBytes of details together, or a single entry that has more. One sealer
	// runs at a time: the call of another returns ErrContention at once. hashes
	// reads stored hashes by their index. If there is nothing to seal, fn is not
	// called.
	Seal(ctx context.Context, limit int, fn func(unsealed Unsealed, hashes HashReader) (Seal, error)) (sealed int,
		err error)
	// Leaves returns up to limit leaves, starting at sequence from, with the
	// current state of their entries.
	Leaves(ctx context.Context, from int64, limit int) ([]Leaf, error)
	// Leaf returns the leaf of an entry. Errors: NotFoundError, also for an entry that
	// is not sealed.
	Leaf(ctx context.Context, entryID repo.ID) (Leaf, error)
	// Hashes reads stored hashes by their index.
	Hashes(ctx context.Context, indexes []int64) ([][32]byte, error)
	// Checkpoint returns the latest checkpoint. Errors: NotFoundError.
	Checkpoint(ctx context.Context) (Checkpoint, error)
	// Strays returns the ids of up to limit entries that are neither sealed nor
	// waiting to be. Lost returns the ids of up to limit entries that wait to be
	// sealed but are missing. Only tampering causes either. Strays reads the whole
	// trail, Lost all that waits.
	Strays(ctx context.Context, limit int) ([]repo.ID, error)
	Lost(ctx context.Context, limit int) ([]repo.ID, error)
	// Waiting returns how many entries are not sealed yet, up to limit, and how
	// long the oldest of them has waited.
	Waiting(ctx context.Context, limit int) (Waiting, error)
}

// HashReader reads stored hashes by their index.
type HashReader func(indexes []int64) ([][32]byte, error)
