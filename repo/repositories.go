package repo

import (
	"context"
	"io"
	"iter"
)

// Store is a whole store. It is safe for concurrent use.
//
// Arguments are copied before a call returns, and results are the caller's own:
// buffers may be reused at once, even if the call returned because its context
// ended and the operation is still under way.
type Store interface {
	Repositories
	// AuditStore returns the rest of the audit trail, for package audit: writing in
	// the background, sealing, pruning and holds.
	AuditStore() AuditStore
	// InTx runs fn in one transaction. If fn returns nil, everything that fn did
	// through tx is committed together; if fn returns an error or panics,
	// everything is rolled back. InTx returns fn's error unchanged, and continues
	// a panic after the rollback.
	//
	// InTx runs fn again, a bounded number of times, if the database aborted the
	// transaction because of a conflict with another one (deadlock, serialization
	// failure), so what fn does outside tx must be safe to repeat. fn must use tx,
	// not the store, only from the calling goroutine, and not after it has
	// returned. After an error of the database the transaction cannot continue:
	// return the error.
	//
	// A store that is used with the context passed to fn, or with one derived from
	// it, could wait for its own transaction: for the transaction's connection, or
	// for a row that it has locked. Until fn returns, every operation of the store,
	// including InTx, and of stores that share its pool or its data, returns an
	// InsideTxError at once. Afterwards the context may be used like any other. An
	// operation with another context cannot be recognized: it may wait until that
	// context ends. fn must not close the store, because Close would wait for fn.
	//
	// If the connection breaks during the commit, the error is ErrUnknownOutcome.
	InTx(ctx context.Context, fn func(ctx context.Context, tx Repositories) error) error
	// Close waits for the operations under way and releases the store's resources.
	// Closing it again has no effect. Operations that begin later return ErrClosed.
	Close() error
}

// Repositories are the repositories of one store or of one transaction.
// Repositories never begin, commit or roll back a transaction that they were
// given.
type Repositories interface {
	Sessions() Sessions
	Actions() Actions
	Plans() Plans
	State() State
	Leases() Leases
	Streams() Streams
	Audit() Audit
}

// Sessions is the repository of sessions and their messages.
type Sessions interface {
	SessionReader
	SessionWriter
	MessageReader
	MessageWriter
	SessionExporter
}

// SessionReader reads sessions.
type SessionReader interface {
	// Get returns the session. Errors: NotFoundError.
	Get(ctx context.Context, id ID) (Session, error)
	// Find returns the id of the session with this key. The session may have been deleted
	// since. Once an operation has said so (NotFoundError), Find does not return its id
	// again; until then it may, also if another session has the key by now. ByKey does
	// without that. Errors: InvalidError if no session can have the key; NotFoundError, with
	// the key.
	Find(ctx context.Context, key SessionKey) (ID, error)
	// Read returns sessions with some of their messages, and states, as they were at
	// one moment: of a transaction that changes several of them, either all changes are
	// seen or none. On PostgreSQL it is one statement and one round trip, also in InTx
	// and Bind.
	//
	// Memory is bounded: once the messages of the snapshot have MaxReadBytes of
	// content, metadata and payload, further ones are left out, and
	// SessionSnapshot.Cut is set. The messages are counted session by session, in
	// the order of the ids; of a session, those after the others are left out, or,
	// with ReadSessions.Last, those before. At least one message that was asked for
	// is returned, if there is any. The sessions' own metadata is not counted.
	//
	// A session that does not exist is not an error, but a nil entry. Errors:
	// InvalidError; StateLimitError if the states have more than MaxStateReadKeys keys
	// or MaxStateBytes together: StateReader.List returns them page by page.
	Read(ctx context.Context, read ReadSessions) (Snapshot, error)
	// List returns one page of the sessions that filter selects, in filter.Order.
	//
	// ByCreation: newest first, by CreatedAt, then ID. Reading all pages yields every
	// session that existed throughout exactly once, whatever is created or deleted
	// meanwhile.
	//
	// ByActivity: last active first, by the time of activity, then ID. A session is
	// active when it is created, and with the first append of each later minute (of
	// the database's clock): a second append in a minute does not move it, so the
	// order is exact to the minute. An imported session was last active at its
	// UpdatedAt. The time never goes back, also if the clock does. Reading all pages
	// yields a session at most once, and exactly once if it existed throughout and was
	// not active meanwhile. One that was active has moved to the front: it is missing
	// if its old place was not read yet, and is then on the first page of a new list.
	//
	// Errors: InvalidError, also for a filter that the order does not allow.
	List(ctx context.Context, filter SessionFilter, page Page) (SessionPage, error)
}

// SessionWriter writes sessions.
type SessionWriter interface {
	// Create creates a session. If a session with the given id or key exists, Create
	// changes nothing: it returns that session if session.Existing accepts it, and
	// otherwise a SessionConflictError. Unless Existing says otherwise, it accepts a
	// session that is the same in every field of NewSession that is given.
	//
	// An id is never given twice. One that the caller gives is refused if a session that had
	// it was deleted (SessionConflictError.Deleted). A session that is made again under its
	// key gets a new id.
	//
	// Errors: InvalidError; SessionConflictError, whose Field is empty if no existing session
	// is accepted; ErrUnknownOutcome, also if the session must be new, and the one that has
	// the given id may be that of an attempt whose answer was lost.
	Create(ctx context.Context, session NewSession) (CreatedSession, error)
	// Update changes the fields that are set in update and returns the updated
	// session, whose Version is one higher. It leaves UpdatedAt. Errors: InvalidError,
	// also if a patch makes the metadata too large; NotFoundError; SessionVersionError
	// if the session is not at update.IfVersion; BudgetExceededError if the new budget
	// is below the cost so far. Nothing is changed then.
	Update(ctx context.Context, id ID, update SessionUpdate) (Session, error)
	// AddUsage adds to the session's usage and returns the new totals. Checking
	// the budget and adding are one step: concurrent callers never exceed it
	// together. A cost that reaches the budget exactly does not exceed it. Neither
	// UpdatedAt nor Version changes.
	//
	// The caller's ID of a usage is an idempotency key: adding the usage again
	// with the same amounts adds nothing and returns the current totals, whatever
	// the budget is by then. Ids are kept as long as the session, and are not
	// exported.
	//
	// Errors: InvalidError (negative, or a total above 2^63-1); NotFoundError;
	// BudgetExceededError, and nothing is added; UsageConflictError if the id was
	// added with other amounts; ErrUnknownOutcome.
	AddUsage(ctx context.Context, id ID, add NewUsage) (Usage, error)
	// Delete deletes the session, its messages, its own state, and its links to
	// plans. The plans and shared states are kept. Errors: NotFoundError.
	Delete(ctx context.Context, id ID) (DeletedSession, error)
}

// MessageReader reads the messages of a session. Since sequences have no gaps, a
// sequence serves as the cursor. A limit of zero means DefaultPageSize; one that is
// negative or above MaxPageSize is an InvalidError. A session that does not exist
// is a NotFoundError.
type MessageReader interface {
	// Message returns the message with this id.
	Message(ctx context.Context, sessionID, id ID) (Message, error)
	// MessagesFrom returns up to limit messages, ascending, starting at sequence
	// from. The next page begins at the last sequence plus one; a result shorter
	// than limit means that there were no more messages.
	MessagesFrom(ctx context.Context, sessionID ID, from int64, limit int) ([]Message, error)
	// MessagesBefore returns up to limit messages whose sequence is below
	// before, descending. The next page begins before the last sequence.
	MessagesBefore(ctx context.Context, sessionID ID, before int64, limit int) ([]Message, error)
	// LastMessages returns the last limit messages, ascending.
	LastMessages(ctx context.Context, sessionID ID, limit int) ([]Message, error)
	// MessagesOfCall returns the messages with this call id, such as a call and its
	// result, ascending: none if there are none, and the first MaxPageSize if there
	// are more. Errors: InvalidError if the call id is empty or longer than
	// MaxUserIDBytes.
	MessagesOfCall(ctx context.Context, sessionID ID, callID string) ([]Message, error)
	// Stream yields the messages, ascending, starting at sequence from, including
	// those that are appended before it reaches the end. It reads in chunks and
	// holds no connection while the loop's body runs, so that memory stays bounded
	// and a slow body does not delay others. An error is yielded once, with a zero
	// Message, and ends the stream: NotFoundError also if the session is deleted before
	// the last chunk was read.
	Stream(ctx context.Context, sessionID ID, from int64) iter.Seq2[Message, error]
	// Follow yields the messages, ascending, starting at sequence from, and then each
	// further one soon after it was committed, by whomever: it waits for them, until
	// ctx ends, the session is deleted or the store is closed. It yields each sequence
	// once, and leaves none out. To go on after an interruption, follow from the last
	// sequence plus one. docs/live.md says how soon, and what it costs.
	//
	// It reads in chunks, as Stream does, and holds no connection while it waits or
	// while the loop's body runs. A slow body delays nobody, and nothing is queued for
	// it: what it has not reached is read when it gets there. In return, messages that
	// it has not reached when the session is deleted are not yielded.
	//
	// An error is yielded once, with a zero Message, and ends it: the context's error;
	// NotFoundError if the session does not exist when Follow begins;
	// SessionDeletedError if it is deleted later; ErrClosed; InvalidError, also in InTx and
	// Bind, since a transaction cannot wait for others. If the database cannot be reached, the error is ErrUnavailable
	// when Follow begins. Later on it waits until the database is back.
	Follow(ctx context.Context, sessionID ID, from int64) iter.Seq2[Message, error]
}

// MessageWriter appends messages.
//
// A batch is stored whole and contiguous or not at all. The caller's ID of a
// message is an idempotency key: appending the message again, in a batch whose
// messages are all stored with the same values, returns the stored messages and
// changes nothing. OccurredAt is compared to the microsecond, Metadata as a JSON
// value.
//
// Errors of all methods: InvalidError, before anything is sent; NotFoundError;
// MessageConflictError if an id is stored with other values or the batch is stored
// in part; FencedError if the session takes only turns with a token
// (Session.FencedOnly); ErrUnknownOutcome.
type MessageWriter interface {
	// Append appends the messages after all others. It never fails because of
	// another writer, but may wait for one.
	Append(ctx context.Context, sessionID ID, messages ...NewMessage) ([]Message, error)
	// AppendAt appends the messages if expected is the session's next sequence.
	// Otherwise it writes nothing and returns a SequenceConflictError with the
	// actual next one.
	AppendAt(ctx context.Context, sessionID ID, expected int64, messages ...NewMessage) ([]Message, error)
	// AppendTurn adds a turn: its messages, changes of state and usage are stored
	// together or not at all. Like Append it never fails because of another writer,
	// but may wait for those of its session and of its scopes. The versions of a
	// scope are in the order in which the turns that change it were committed.
	//
	// If sessionID is zero, the turn is for the session with the key of Turn.Create, which is
	// created unless it exists. A session that does not exist is created in the turn's
	// transaction: if it cannot be, because its id was deleted or another session has its key,
	// the error is SessionConflictError.
	//
	// A turn with a token (Turn.Fence) is refused if a later one was given for a lease of
	// the session, from the moment at which that was acquired.
	//
	// A turn that is stored already, by its id, is answered with Repeated, and its
	// conditions (Fence, Expected, IfScopes, IfVersion) are not checked again. A message or
	// usage whose id was stored by another call is a conflict, except that usage with
	// the same amounts adds nothing, as in AddUsage.
	//
	// Further errors, with nothing stored: TurnConflictError if another turn has the
	// id; FencedError; SequenceConflictError; StateConflictError if a condition does not hold;
	// StateTypeError for an increment of what is not a 64-bit integer;
	// UsageConflictError; BudgetExceededError. They are found in this order.
	AppendTurn(ctx context.Context, sessionID ID, turn Turn) (AppendedTurn, error)
	// AppendTurns adds up to MaxTurns turns, of one or several sessions, together or
	// not at all, in the order given, and returns their results in that order. Each is
	// added as by AppendTurn, and those that are stored already are answered with
	// Repeated. No id may be given twice in a session. An error is that of the first
	// turn that was refused. While the call waits for other writers of a session or a
	// scope, it keeps nobody from the others. A call that is made after another one
	// has returned is stored after it; calls under way at the same time are stored in
	// any order, the same one in all of their sessions.
	AppendTurns(ctx context.Context, turns ...SessionTurn) ([]AppendedTurn, error)
}

// SessionExporter moves sessions between stores as JSON documents. docs/export.md
// defines the format and its checksum.
type SessionExporter interface {
	// Export writes the session, all of its messages, and its own state, as they were at
	// one moment after the call began. Memory stays bounded, however long the session. After an error, w has
	// received an incomplete document, which every import refuses. Errors:
	// NotFoundError; ErrLimit if the session is linked to more than 100,000 plans; w's
	// own; the context's.
	//
	// No connection is held while w's Write runs. Like AuditReader.Export, Export
	// returns when ctx ends even if Write does not. One goroutine then remains
	// until that Write returns.
	Export(ctx context.Context, id ID, w io.Writer) error
	// Import reads one document and stores its session under its own id, with
	// its times, usage, sequences and state, in one transaction. Exporting the session
	// again gives the same document. Memory stays bounded. Errors: ImportError, and
	// nothing is written; it wraps a SessionConflictError if a session with that id
	// or that key exists, or one with that id was deleted (see ImportOptions), and a
	// NotFoundError if a plan that the session is linked to does not exist;
	// ErrUnavailable, also if there is no room for the temporary file; the
	// context's.
	//
	// The whole document is read and checked before the transaction begins (a
	// store may keep a long one in a temporary file). Import returns when ctx ends
	// even if r's Read does not. One goroutine then remains until that Read
	// returns; r is not read again.
	Import(ctx context.Context, r io.Reader, options ImportOptions) (Session, error)
}
