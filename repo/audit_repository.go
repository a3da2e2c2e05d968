package repo

import (
	"context"
	"io"
)

// Audit reads and records the audit trail. It is part of Repositories, so that an
// entry can be recorded in the transaction of the change that it describes.
type Audit interface {
	AuditRecorder
	AuditReader
}

// AuditRecorder records entries.
type AuditRecorder interface {
	// Record records all of the entries or none. In a transaction they are
	// committed with it. Record does not redact; package audit does. Errors:
	// InvalidError (for example, for an unknown type), before anything is sent;
	// AuditConflictError for the id of an entry with another content (if that is being
	// recorded at this moment, the others may have been recorded); ErrUnknownOutcome,
	// after which recording them again is safe.
	Record(ctx context.Context, entries ...AuditEntry) error
}

// AuditReader reads the audit trail. Others may write it at the same time.
type AuditReader interface {
	// Entry returns one entry. Errors: NotFoundError.
	Entry(ctx context.Context, id ID) (AuditEntry, error)
	// List returns one page of the entries that filter selects.
	List(ctx context.Context, filter AuditFilter, order AuditOrder, page Page) (AuditPage, error)
	// Count counts the entries that filter selects, exactly up to limit, which is
	// at least 1 and at most MaxAuditCount. Zero: DefaultAuditCount.
	Count(ctx context.Context, filter AuditFilter, limit int) (AuditCount, error)
	// Export writes the entries that filter selects as JSON lines, oldest first, in
	// bounded memory. For a writer that stalls see SessionExporter.Export.
	Export(ctx context.Context, filter AuditFilter, w io.Writer) error
}

// AuditSink is where package audit's Writer writes entries. It has a connection of
// its own, which nothing else uses. One goroutine uses a sink at a time.
type AuditSink interface {
	// Record records entries like AuditRecorder.Record, and returns how many were
	// new. Further errors: ErrUnavailable, ErrContention, ErrUnknownOutcome: the
	// batch may be recorded again; ErrInvalid, AuditConflictError: one of the entries
	// is refused.
	Record(ctx context.Context, entries []AuditEntry) (AuditRecorded, error)
	// Quarantine stores an entry that cannot be recorded. It may be repeated; other
	// entries with the same id are stored beside it.
	Quarantine(ctx context.Context, poison AuditPoison) error
	// Close releases the connection.
	Close() error
}

// AuditStore is the part of a store that package audit uses to write in the
// background, and to prune, hold and seal the trail. Store.AuditStore returns it.
type AuditStore interface {
	// Sink opens a sink. Errors: ErrUnavailable, ErrPermission, ErrSchema.
	Sink(ctx context.Context) (AuditSink, error)
	// Prune removes old entries in bounded batches, and records an entry about the
	// prune: see AuditPruneDetails. Entries on hold, entries that are not sealed
	// yet, and entries about prunes and gaps are not removed. In PostgreSQL only the
	// owner of the tables may prune. Further errors: InvalidError for more than
	// MaxHeldInPrune holds; ErrPermission.
	Prune(ctx context.Context, prune AuditPrune) (AuditPruned, error)
	// Hold protects entries from being pruned: those that are there when it returns
	// stay, also if a prune is under way. Release ends the hold. Both may be repeated.
	// In PostgreSQL only the owner of the tables may hold and release. Further errors:
	// ErrPermission.
	Hold(ctx context.Context, hold AuditHold) error
	Release(ctx context.Context, hold AuditHold) error
	Holds(ctx context.Context) ([]AuditHold, error)

	AuditLog
}

// AuditLog stores the sealed log. Package audit computes its contents: see
// audit.Sealer.
type AuditLog interface {
	// Identity returns a random id of the database, generated with its tables. A
	// copy of a database has the same identity.
	Identity(ctx context.Context) (ID, error)
	// Seal passes up to limit unsealed entries to fn and stores its result, in one
	// transaction. A call gets at most MaxSealEntries entries, with at most
	// MaxSealBytes of details together, or a single entry that has more. One sealer
	// runs at a time: the call of another returns ErrContention at once. hashes
	// reads stored hashes by their index. If there is nothing to seal, fn is not
	// called.
	Seal(ctx context.Context, limit int, fn func(unsealed AuditUnsealed, hashes HashReader) (AuditSeal, error)) (sealed int, err error)
	// Leaves returns up to limit leaves, starting at sequence from, with the
	// current state of their entries.
	Leaves(ctx context.Context, from int64, limit int) ([]AuditLeaf, error)
	// Leaf returns the leaf of an entry. Errors: NotFoundError, also for an entry that
	// is not sealed.
	Leaf(ctx context.Context, entryID ID) (AuditLeaf, error)
	// Hashes reads stored hashes by their index.
	Hashes(ctx context.Context, indexes []int64) ([][32]byte, error)
	// Checkpoint returns the latest checkpoint. Errors: NotFoundError.
	Checkpoint(ctx context.Context) (AuditCheckpoint, error)
	// Strays returns the ids of up to limit entries that are neither sealed nor
	// waiting to be. Lost returns those of up to limit entries that are waiting to be
	// sealed but do not exist. Only tampering causes either. Strays reads the whole
	// trail, Lost all that waits.
	Strays(ctx context.Context, limit int) ([]ID, error)
	Lost(ctx context.Context, limit int) ([]ID, error)
	// Waiting returns how many entries are not sealed yet, up to limit, and how
	// long the oldest of them has waited.
	Waiting(ctx context.Context, limit int) (AuditWaiting, error)
}

// HashReader reads stored hashes by their index.
type HashReader func(indexes []int64) ([][32]byte, error)
