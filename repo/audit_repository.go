package repo

import (
	"context"
	"io"
)

// Audit reads and records the trail. It is part of Repositories, so that an
// entry can be recorded in the transaction of the change that it describes.
type Audit interface {
	AuditRecorder
	AuditReader
}

// AuditRecorder records entries.
type AuditRecorder interface {
	// Record records the entries: all or none. Within a unit of work they are
	// committed with it. It does not redact: package audit does.
	// Errors: InvalidError (of an unknown type, for example), before anything is sent;
	// ErrUnknownOutcome, after which recording them again is safe.
	Record(ctx context.Context, entries ...AuditEntry) error
}

// AuditReader reads the trail, beside whoever writes it.
type AuditReader interface {
	// Entry returns one entry. Errors: NotFoundError.
	Entry(ctx context.Context, id ID) (AuditEntry, error)
	// List returns one page of what filter selects.
	List(ctx context.Context, filter AuditFilter, order AuditOrder, page Page) (AuditPage, error)
	// Count counts what filter selects, exactly up to limit, which is at least
	// 1 and at most MaxAuditCount. Zero: DefaultAuditCount.
	Count(ctx context.Context, filter AuditFilter, limit int) (AuditCount, error)
	// Export writes what filter selects as JSON lines, oldest first, in bounded
	// memory. For a writer that stalls see SessionPorter.Export.
	Export(ctx context.Context, filter AuditFilter, w io.Writer) error
}

// AuditSink is what package audit's Writer writes into: it has a connection of
// its own, which nothing else uses. One goroutine uses a sink at a time.
type AuditSink interface {
	// Record records entries like AuditRecorder's, and says which were new. Errors also:
	// ErrUnavailable, ErrContention, ErrUnknownOutcome: the batch may be
	// recorded again; ErrInvalid: an entry of it is refused by the database.
	Record(ctx context.Context, entries []AuditEntry) (AuditRecorded, error)
	// Quarantine keeps an entry that cannot be recorded. It may be repeated.
	Quarantine(ctx context.Context, poison AuditPoison) error
	// Close gives the connection back.
	Close() error
}

// AuditStore is what package audit needs of a store to write in the background,
// prune, hold and seal the trail. Store.Trail returns it.
type AuditStore interface {
	// Sink opens a sink. Errors: ErrUnavailable, ErrPermission, ErrSchema.
	Sink(ctx context.Context) (AuditSink, error)
	// Prune removes old entries in bounded batches, and records an entry of
	// its own that says so: see AuditPruneDetails. Entries on hold, entries that
	// are not sealed yet, and entries about prunes and gaps are not removed.
	// Errors also: InvalidError with more than MaxHeldInPrune holds.
	Prune(ctx context.Context, prune AuditPrune) (AuditPruned, error)
	// Hold keeps entries from being pruned, Release ends that. Both may be
	// repeated.
	Hold(ctx context.Context, hold AuditHold) error
	Release(ctx context.Context, hold AuditHold) error
	Holds(ctx context.Context) ([]AuditHold, error)

	AuditLog
}

// AuditLog is where the sealed log is stored. Package audit computes what it
// holds: see its Sealer.
type AuditLog interface {
	// Identity is a random id of the database's own, made with its tables. A
	// copy of a database has its identity.
	Identity(ctx context.Context) (ID, error)
	// Seal gives fn up to limit entries that are not sealed yet, and as many as
	// have MaxSealBytes of details (or one that has more), and stores
	// what it makes of them, in one transaction. It runs one sealer at a time:
	// another one's call returns ErrContention at once. hashes reads stored
	// hashes by their index. With nothing to seal fn is not called.
	Seal(ctx context.Context, limit int, fn func(unsealed AuditUnsealed, hashes HashReader) (AuditSeal, error)) (sealed int, err error)
	// Leaves returns up to limit leaves from sequence from on, with their
	// entries as they are now.
	Leaves(ctx context.Context, from int64, limit int) ([]AuditLeaf, error)
	// Leaf returns the leaf of an entry: the earliest with this id. Errors:
	// NotFoundError, also for an entry that is not sealed.
	Leaf(ctx context.Context, entryID ID) (AuditLeaf, error)
	// FirstLeaf is Leaf, but of several entries with the id it is that of the one
	// that was sealed first: nobody comes before it by giving a time.
	FirstLeaf(ctx context.Context, entryID ID) (AuditLeaf, error)
	// Hashes reads stored hashes by their index.
	Hashes(ctx context.Context, indexes []int64) ([][32]byte, error)
	// Checkpoint returns the latest one. Errors: NotFoundError.
	Checkpoint(ctx context.Context) (AuditCheckpoint, error)
	// Strays returns up to limit entries that are neither sealed nor waiting to
	// be. Lost returns up to limit entries (their id and time) that wait to be
	// sealed and do not exist any more. Only tampering causes either. Both read
	// the whole trail.
	Strays(ctx context.Context, limit int) ([]AuditEntry, error)
	Lost(ctx context.Context, limit int) ([]AuditEntry, error)
	// Waiting says how many entries are not sealed yet, up to limit, and the
	// oldest RecordedAt among them (zero if none).
	Waiting(ctx context.Context, limit int) (AuditWaiting, error)
}

// HashReader reads stored hashes by their index.
type HashReader func(indexes []int64) ([][32]byte, error)
