package repo

import (
	"context"
	"io"
	"iter"
)

// Store is a whole store. It is safe for concurrent use.
//
// Arguments are copied before a call returns, and results are the caller's own:
// buffers may be reused at once, even when the call returned because its context
// ended and the operation is still under way.
type Store interface {
	Repositories
	// Trail returns the rest of the audit trail, for package audit: writing in
	// the background, sealing, pruning and holds.
	Trail() AuditStore
	// InTx runs fn in one transaction: all that fn does through tx is committed
	// together when fn returns nil, and nothing of it when fn returns an error
	// or panics. fn's error comes back as it is; a panic goes on after the
	// rollback.
	//
	// fn is run again, a bounded number of times, when the database aborted the
	// transaction because of a conflict with another one (deadlock, serialization
	// failure), so what it does outside of tx must be safe to repeat. It must use
	// tx, not the store, from the calling goroutine alone, and not after it
	// returned. After an error of the database the transaction cannot go on: return
	// the error.
	//
	// A store that is used with the context that fn got, or with one derived from
	// it, could wait for its own unit of work: for its connection, or for a row
	// that it locked. Until fn returns, every operation of the store, InTx too,
	// and of those that share its pool or its data, returns an InsideTxError at
	// once. Afterwards the context may be used like any other. An operation with another context is not known to come from
	// inside: it may wait until that context ends. fn must not close the store,
	// which would wait for fn.
	//
	// If the connection breaks during the commit, the error is ErrUnknownOutcome.
	InTx(ctx context.Context, fn func(ctx context.Context, tx Repositories) error) error
	// Close releases what the store holds, after the operations under way have
	// ended. Closing it again has no effect. Operations that begin later return
	// ErrClosed.
	Close() error
}

// Repositories are the repositories of one store or of one transaction.
// Repositories never begin, commit or roll back a transaction that they were
// given.
type Repositories interface {
	Sessions() Sessions
	Actions() Actions
	Plans() Plans
	Audit() Audit
}

// Sessions is the repository of sessions and their messages.
type Sessions interface {
	SessionReader
	SessionWriter
	MessageReader
	MessageWriter
	SessionPorter
}

// SessionReader reads sessions.
type SessionReader interface {
	// Get returns the session. Errors: NotFoundError.
	Get(ctx context.Context, id ID) (Session, error)
	// List returns one page of the sessions that filter selects, newest first
	// (by CreatedAt, then ID). A list that is read to its end page by page
	// holds every session that existed throughout exactly once, whatever is
	// created or deleted meanwhile. Errors: InvalidError.
	List(ctx context.Context, filter SessionFilter, page Page) (SessionPage, error)
}

// SessionWriter writes sessions.
type SessionWriter interface {
	// Create creates a session. Creating one with a given id again returns the
	// stored session when it is the same in every field of NewSession, and
	// changes nothing. Errors: InvalidError; SessionConflict when it differs.
	Create(ctx context.Context, session NewSession) (Session, error)
	// Update changes what update says and returns the session as it then is.
	// Errors: InvalidError; NotFoundError; BudgetExceeded when the new budget
	// is below the cost so far.
	Update(ctx context.Context, id ID, update SessionUpdate) (Session, error)
	// AddUsage adds to the session's usage and returns the new totals. Checking
	// the budget and adding are one step: concurrent callers never pass it
	// together. A cost that reaches the budget exactly is within it.
	//
	// A usage with an ID of the caller's is added once: adding it again with the
	// same amounts adds nothing and returns the totals as they then are,
	// whatever the budget then is. Ids are kept for as long as the session is,
	// and do not travel with an export.
	//
	// Errors: InvalidError (negative, or a total past 2^63-1); NotFoundError;
	// BudgetExceeded, and nothing is added; UsageConflict when the id was added
	// with other amounts; ErrUnknownOutcome.
	AddUsage(ctx context.Context, id ID, add NewUsage) (Usage, error)
	// Delete deletes the session and its messages, and its links to plans. The
	// plans stay. Errors: NotFoundError.
	Delete(ctx context.Context, id ID) (DeletedSession, error)
}

// MessageReader reads the messages of a session. The messages are dense, so a
// sequence is the only cursor that is needed. A limit of zero means
// DefaultPageSize; one that is negative or above MaxPageSize is an
// InvalidError. A session that does not exist gives a NotFoundError.
type MessageReader interface {
	// Message returns the message with this id.
	Message(ctx context.Context, sessionID, id ID) (Message, error)
	// MessagesFrom returns up to limit messages from sequence from on,
	// ascending. The next page begins at the last sequence plus one; a result
	// shorter than limit means that there was no more.
	MessagesFrom(ctx context.Context, sessionID ID, from int64, limit int) ([]Message, error)
	// MessagesBefore returns up to limit messages whose sequence is below
	// before, descending. The next page begins before the last sequence.
	MessagesBefore(ctx context.Context, sessionID ID, before int64, limit int) ([]Message, error)
	// LastMessages returns the last limit messages, ascending.
	LastMessages(ctx context.Context, sessionID ID, limit int) ([]Message, error)
	// Stream yields the messages from sequence from on, ascending, up to the
	// last one there is when it gets there. It reads in chunks and holds no
	// connection while the loop's body runs, so that memory stays bounded
	// and a slow body starves nobody. An error ends it, yielded once with a
	// zero Message.
	Stream(ctx context.Context, sessionID ID, from int64) iter.Seq2[Message, error]
}

// MessageWriter appends messages.
//
// A batch is stored whole and contiguous or not at all. A message with an ID of
// the caller's is appended once: appending it again, in a batch all of whose
// messages are stored with the same values, returns the stored messages and
// changes nothing. OccurredAt is compared to the microsecond, Metadata as a
// JSON value.
//
// Errors of both: InvalidError, before anything is sent; NotFoundError;
// MessageConflict when an id is stored with other values or the batch is
// stored in part; ErrUnknownOutcome.
type MessageWriter interface {
	// Append appends the messages after all others. It never fails because of
	// another writer, but may wait for one.
	Append(ctx context.Context, sessionID ID, messages ...NewMessage) ([]Message, error)
	// AppendAt appends the messages if the first of them gets the sequence
	// expected. Otherwise it writes nothing and returns a SequenceConflict with
	// the actual next one.
	AppendAt(ctx context.Context, sessionID ID, expected int64, messages ...NewMessage) ([]Message, error)
}

// SessionPorter moves sessions between stores as JSON documents. docs/export.md
// defines the format and its checksum.
type SessionPorter interface {
	// Export writes the session and every message it had when the export
	// began. Memory stays bounded, however long the session. After an error
	// what w got is incomplete, and no importer takes it. Errors:
	// NotFoundError; w's own; the context's.
	//
	// No connection is held while w's Write runs, and Export returns when ctx ends
	// even if Write does not. (So does AuditReader.Export.) One goroutine is then
	// left, which ends when that Write returns.
	Export(ctx context.Context, id ID, w io.Writer) error
	// Import reads one document and stores its session under its own id, with
	// its times, usage and sequences, in one transaction; exporting it again
	// gives the same document. Memory stays bounded. Errors: ImportError, and
	// nothing is written; SessionConflict (wrapped in it) when a session with
	// that id exists; NotFoundError (wrapped) when a plan that it links does
	// not; the context's.
	//
	// The whole document is read and checked before the transaction begins (a
	// store may put a long one into a temporary file), and Import returns when ctx
	// ends even if r's Read does not. One goroutine is then left, which ends when
	// that Read returns; r is not read again.
	Import(ctx context.Context, r io.Reader) (Session, error)
}
