package repo

import (
	"context"
	"io"
	"iter"
)

// Store is a whole store. It is safe for concurrent use. Arguments are copied before a
// call returns, and results are the caller's own.
type Store interface {
	Repositories
	// InTx runs fn in one transaction. If fn returns nil, everything that fn did through tx is committed together; if it
	// returns an error or panics, everything is rolled back. InTx returns fn's error unchanged.
	//
	// InTx runs fn again, a bounded number of times, if the database aborted the transaction because of a conflict with
	// another one, so what fn does outside tx must be safe to repeat. fn must use tx, not the store, only from the calling
	// goroutine, and not after it has returned. A conflict, or another answer, leaves the transaction usable. After an
	// error of the database it is not: return that.
	//
	// Until fn returns, every operation of the store, and of stores that share its pool or its data, with the context
	// passed to fn or one derived from it returns an InvalidError of the field "context" at once: it could wait for its
	// own transaction. fn must not close the store.
	InTx(ctx context.Context, fn func(ctx context.Context, tx Repositories) error) error
	// Close waits for the operations under way and releases the store's resources; later ones return ErrClosed.
	Close() error
}

// Repositories are the repositories of a store or of a transaction.
type Repositories interface {
	Sessions() Sessions
	Actions() Actions
	Plans() Plans
	State() State
	Leases() Leases
	Streams() Streams
	Audit() Audit
}

// Sessions is the repository of sessions and their messages: reading, writing, and a session's life.
//
// Errors of all methods: InvalidError; NotFoundError; ErrUnknownOutcome.
type Sessions interface {
	SessionReader
	MessageReader
	MessageWriter
	SessionTransfer

	// Create creates a session. If one with the given id or key exists, Create returns it, with Existed, if
	// session.Existing accepts it; otherwise the error is ExistsError. The id of a session that was deleted is refused
	// (Gone), and a session that is made again under its key gets a new one.
	Create(ctx context.Context, session NewSession) (Session, error)
	// Update changes the fields that are set in update, and increases Version by one. It leaves UpdatedAt. Errors:
	// VersionConflictError; LimitExceededError if the new budget is below the cost so far.
	Update(ctx context.Context, id ID, update SessionUpdate) (Session, error)
	// Fork creates a session that begins with the transcript of another one, up to the message with the sequence at, on
	// whatever branch. No message is copied: the fork has the same ones, and its sequences go on behind at. All else is
	// its own, also the ids: a message that is appended with the id of an inherited one is another one, which Message
	// returns. The other session may be rewound and deleted. An existing fork of the same message is accepted as in
	// Create. Errors: as of Create; LimitExceededError if the fork would have more than 100 ancestors.
	Fork(ctx context.Context, id ID, at int64, session NewSession) (Session, error)
	// Delete deletes the session, its messages, its own state, and its links to plans, but no plan or shared state.
	// Messages that forks have are deleted with the last of these. The session is gone at once; what is large is removed
	// afterwards, a little at a time. All conditions must hold. Errors: RefusedError of the kinds "hold" and "session";
	// VersionConflictError.
	Delete(ctx context.Context, id ID, conditions ...DeleteIf) (DeletedSession, error)
	// Redact removes what the messages with these sequences say, on whatever branch, for ever: 1 to 1,000 at once. Their
	// place, id, role, CallID and times stay, their Kind is KindRedacted, and their Content "erased". A call that has
	// stored one is answered as before, and brings nothing back. The message of a fork and of the session that it is of
	// is one, and goes from both, and from all other forks.
	//
	// The streams of the session, and of its messages' own sessions, expire. Each of them that exists gets a message of
	// KindRedacted, so that followers learn of it, and windows leave it out; followers of other forks do at their next
	// read. The audit trail gets an entry with the Actor and the Reason of by, which is required; nothing else of by is
	// set. Messages that are redacted already change nothing. Errors: NotFoundError of the first message that the session
	// does not have; RefusedError of the kinds "hold" and, in a view, for a message of another namespace, "session".
	Redact(ctx context.Context, id ID, sequences []int64, by Cause) error
	// RemoveDeleted removes up to limit rows (zero: 1,000; at most 10,000) of deleted sessions at once, before the store
	// does it in its own time. more: call it again. Otherwise all are removed, or other calls are removing them.
	RemoveDeleted(ctx context.Context, limit int) (removed int64, more bool, err error)
	// AddHold keeps what the hold names from being deleted, until it is removed. A hold that exists keeps its reason.
	// Errors: NotFoundError for its session.
	AddHold(ctx context.Context, hold LegalHold) error
	// RemoveHold ends a hold, whose Reason is not used. It may be repeated.
	RemoveHold(ctx context.Context, hold LegalHold) error
	// Holds returns one page of the holds, of sessions first, then by the bytes of namespace and owner.
	Holds(ctx context.Context, page Page) (List[LegalHold], error)
}

// SessionReader finds sessions, and reads several at one moment.
type SessionReader interface {
	// Get returns the session.
	Get(ctx context.Context, id ID) (Session, error)
	// Find returns the id of the session with this key: perhaps of a deleted one, until an operation says so
	// (adapter.ByKey).
	Find(ctx context.Context, key SessionKey) (ID, error)
	// Read returns sessions with some of their messages, and states, as they were at one moment. Beyond 16 MiB of content,
	// metadata and payload messages are left out, session by session, in the order of the ids (SessionSnapshot.Cut); one
	// at least is returned. Errors: LimitExceededError if the states have more than 10,000 keys or 64 MiB: State.List
	// pages them.
	Read(ctx context.Context, read ReadSessions) (Snapshot, error)
	// List returns one page of the sessions that filter selects, newest first, by CreatedAt, then ID; or with
	// filter.ByActivity, the last active first, by UpdatedAt, then ID. If more than 5,000 were active in a minute, they
	// may be ordered by their first activity in it. Pages by activity have a session at most once.
	List(ctx context.Context, filter SessionFilter, page Page) (List[Session], error)
	// Namespaces returns one page of the namespaces that have sessions, in the store's order, in a time that grows with no
	// session.
	Namespaces(ctx context.Context, page Page) (List[string], error)
}

// MessageReader reads messages. Message, MessagesOfCall, Turn and Follow have the messages of all branches; the
// others the transcript's: the path from the last message, by the one that each follows, to the first. Sequences
// increase along it. A limit is at most MaxPageSize; zero means DefaultPageSize.
type MessageReader interface {
	// Message returns the message with this id.
	Message(ctx context.Context, sessionID, id ID) (Message, error)
	// MessagesFrom returns up to limit messages, ascending, from a sequence on; fewer if there are no more.
	MessagesFrom(ctx context.Context, sessionID ID, from int64, limit int) ([]Message, error)
	// MessagesBefore returns up to limit messages whose sequence is below before, descending.
	MessagesBefore(ctx context.Context, sessionID ID, before int64, limit int) ([]Message, error)
	// LastMessages returns the last limit messages, ascending.
	LastMessages(ctx context.Context, sessionID ID, limit int) ([]Message, error)
	// MessagesOfCall returns the messages with this call id, ascending, at most MaxPageSize.
	MessagesOfCall(ctx context.Context, sessionID ID, callID string) ([]Message, error)
	// Turn returns the messages of the turn with this id: its Turn.ID, or the id that stood for it, and its plan. Repeated
	// is true, and Scopes, Usage and Stream, which are not kept, are nil. A turn of nothing but messages, without an ID,
	// is not found.
	Turn(ctx context.Context, sessionID ID, id string) (AppendedTurn, error)
	// Branches returns the branches that begin behind the same message as the one with this sequence, ascending, that
	// one's among them. To make one the transcript again, add a turn with nothing but After, its Branch.Last. Errors:
	// LimitExceededError if there are more than 10,000 branches.
	Branches(ctx context.Context, sessionID ID, sequence int64) ([]Branch, error)
	// Messages yields the messages, ascending, from a sequence on. It holds no connection while the loop's body runs. An
	// error is yielded once, with a zero Message, and ends it: also NotFoundError if the session is deleted meanwhile, and
	// SequenceConflictError if it is rewound to before what was yielded.
	Messages(ctx context.Context, sessionID ID, from int64) iter.Seq2[Message, error]
	// Follow is like Messages, but goes on with each further message soon after it was committed, by whomever, each
	// sequence of all branches once and none left out, until ctx ends, the session is deleted or the store is closed.
	// Nothing is queued for a slow body. docs/live.md has its cost. Errors: the context's; NotFoundError; ErrClosed;
	// InvalidError, also in InTx and Bind, since a transaction cannot wait for others; ErrUnavailable when Follow begins:
	// later on it waits until the database is back.
	Follow(ctx context.Context, sessionID ID, from int64) iter.Seq2[Message, error]
}

// MessageWriter writes to sessions.
type MessageWriter interface {
	// Append appends the messages after all others, contiguous, all or none. It never fails because of another writer, but
	// may wait for one. The caller's ID of a message is an idempotency key: appending it again, in a batch whose messages
	// are all stored with the same values, returns the stored messages and changes nothing. OccurredAt is compared to the
	// microsecond, Metadata as a JSON value. Errors: ExistsError; FencedError (Session.FencedOnly).
	Append(ctx context.Context, sessionID ID, messages ...NewMessage) ([]Message, error)
	// AppendTurn adds a turn: its messages, changes of state, usage, plan and stream are stored together or not at all. It
	// never fails because of another writer, but may wait for writers of its session and its scopes. A turn that is stored
	// already, by its id, is answered with Repeated, and its conditions are not checked again. Usage that is stored
	// already adds nothing.
	//
	// A turn with After rewinds the session: its messages begin a branch, which later appends follow. State stays as it
	// is.
	//
	// Errors, found in this order: ExistsError if the session cannot be created, another turn has the id, or another call
	// has stored one of the messages; FencedError; SequenceConflictError; InvalidError if After is no message of the
	// session; VersionConflictError; RefusedError for an increment of what is not a 64-bit integer;
	// LimitExceededError for an increment beyond its bound; ExistsError of other usage with the id; LimitExceededError for
	// the budget; errors of Plans.Use, with RefusedError for an action that is not Reusable, and of Streams.Open.
	AppendTurn(ctx context.Context, turn Turn) (AppendedTurn, error)
	// AddUsage adds to the session's usage and returns the new totals. It leaves UpdatedAt and Version. The cost may reach
	// the budget exactly. Adding a usage with the caller's ID again adds nothing, and returns the current totals. Ids are
	// kept as long as the session, and are not exported. Errors: InvalidError for a total above 2^63-1;
	// LimitExceededError; ExistsError for other amounts.
	AddUsage(ctx context.Context, id ID, add NewUsage) (Usage, error)
}

// SessionTransfer writes sessions as documents, and reads them.
type SessionTransfer interface {
	// Export writes the session, all of its messages, and its own state, as they were at one moment, as a JSON document
	// (docs/export.md), in bounded memory, and without a connection while w's Write runs. It returns when ctx ends; if
	// Write does not, one goroutine waits for it. Errors: ErrLimit above 100,000 linked plans; w's own, with an incomplete
	// document, which every import refuses; the context's.
	Export(ctx context.Context, id ID, w io.Writer) error
	// Import checks one document, and then stores its session under its own id in one transaction; with restore also one
	// whose id was deleted. Of ctx and r see Export. Errors: ImportError, which wraps an ExistsError for an id or key, and
	// a NotFoundError for a linked plan; ErrUnavailable, also without room for the temporary file of a long document; the
	// context's.
	Import(ctx context.Context, r io.Reader, restore bool) (Session, error)
}
