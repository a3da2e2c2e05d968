package repo

import (
	"encoding/json"
	"time"
)

// AuditEntry says that something happened. Once recorded it never changes.
type AuditEntry struct {
	// ID makes recording repeatable, together with OccurredAt: an entry that is
	// recorded already, or was and has been pruned, is not recorded again. The
	// same ID at another time is another entry; asked for by ID alone, the
	// earliest is returned. Zero, when recording: a new one.
	ID ID
	// OccurredAt is when it happened, by the caller's clock, to the microsecond.
	// Zero, when recording: the time within ID, which for a new one is now.
	OccurredAt time.Time
	// RecordedAt is the database's clock. It is ignored when recording.
	RecordedAt time.Time
	// Type is one of the event types, or one that was registered.
	Type EventType
	// Actor is the agent and User the person behind it. Both are optional, at
	// most MaxNameBytes each.
	Actor, User string
	// PlanID and SessionID are what it is about. Zero: none. The plan and the
	// session need not exist.
	PlanID, SessionID ID
	// Project is optional, at most MaxNameBytes.
	Project string
	// Details is a JSON object of at most MaxMetadataBytes, byte for byte as it
	// was given. Nil: "{}".
	Details json.RawMessage
}

// AuditFilter selects entries. Every field that is set narrows the selection.
type AuditFilter struct {
	Type              EventType
	Actor, User       string
	PlanID, SessionID ID
	Project           string
	OccurredFrom      time.Time // inclusive
	OccurredBefore    time.Time // exclusive
}

// AuditPage is one page of a list.
type AuditPage struct {
	Entries []AuditEntry
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}

// AuditOrder is the order of a list, by OccurredAt, then ID.
type AuditOrder int

// The orders.
const (
	NewestFirst AuditOrder = iota
	OldestFirst
)

// AuditCount is the answer of a bounded count.
type AuditCount struct {
	Entries int64
	// AtLeast: there are more than Entries.
	AtLeast bool
}

// AuditRecorded says what became of a batch.
type AuditRecorded struct {
	// Written entries are new, Known ones were recorded already.
	Written, Known int
}

// AuditPoison is an entry that the database refuses for what it holds.
type AuditPoison struct {
	ID ID
	// Document is the entry as JSON, as bytes: it may be what text cannot hold.
	Document []byte
	// Reason is the database's error, without values.
	Reason string
}

// AuditPrune says what to remove from the trail.
type AuditPrune struct {
	// Before bounds OccurredAt, exclusive. It is required.
	Before time.Time
	// Types: empty means all. EventAuditPruned and EventAuditGap are never
	// removed: they record what is missing.
	Types []EventType
	// DryRun only counts.
	DryRun bool
	// Actor and Reason go into the entry that the prune itself records.
	Actor, Reason string
}

// AuditPruned says what a prune removed.
type AuditPruned struct {
	Entries int64
	// Held is how many a legal hold kept.
	Held int64
	// Unsealed is how many stayed because they are not sealed yet.
	Unsealed int64
}

// AuditHold keeps the entries of one plan or session from being pruned.
type AuditHold struct {
	// One of PlanID and SessionID is set.
	PlanID, SessionID ID
	Reason            string
	CreatedAt         time.Time
}

// SealedEntry is an entry with what its leaf hashes beside it.
type SealedEntry struct {
	AuditEntry
	// Nonce is 16 random bytes, so that a leaf tells nobody what it hides.
	Nonce ID
}

// AuditLeaf is one leaf of the log.
type AuditLeaf struct {
	// Sequence is its place: 0 is the first.
	Sequence   int64
	EntryID    ID
	OccurredAt time.Time
	// Hash is the leaf's record hash, which outlives its entry.
	Hash [32]byte
	// Entry is what is stored. Nil: it is gone.
	Entry *SealedEntry
	// PrunedBy is the entry of the prune that removed it. Zero: none did.
	PrunedBy ID
	// Version is the form of the leaf, 1 or 2. One of version 2 keeps what
	// follows: see package audit's LeafHash.
	Version int
	Kept    AuditKept
}

// AuditKept is what a leaf of version 2 keeps of its entry, beside its id and
// OccurredAt, when the entry is pruned.
type AuditKept struct {
	Type              EventType
	PlanID, SessionID ID
	// Hidden is SHA-256 of the rest.
	Hidden [32]byte
}

// AuditUnsealed is what a sealer works on.
type AuditUnsealed struct {
	// Size is the number of leaves so far.
	Size int64
	// Entries are the next ones to seal, in order.
	Entries []SealedEntry
	// More: others wait behind them.
	More bool
	// Identity is the log's.
	Identity ID
	// Latest is the checkpoint of Size leaves. Its size is 0 when there is none.
	Latest AuditCheckpoint
	// VersionOne counts the leaves of version 1. It reads all leaves.
	VersionOne func() (int64, error)
}

// AuditSeal is what a sealer made of it.
type AuditSeal struct {
	// Leaves are the record hashes of the entries, in order.
	Leaves [][32]byte
	// Hidden are the entries' AuditKept.Hidden, in order. Empty: the leaves are
	// of version 1.
	Hidden [][32]byte
	// Hashes are the tree's new stored hashes, in order, to be stored from
	// FirstHash on.
	FirstHash int64
	Hashes    [][32]byte
	// Checkpoint is the note about the tree with these leaves.
	Checkpoint AuditCheckpoint
}

// AuditCheckpoint states the whole log up to a size.
type AuditCheckpoint struct {
	Size int64
	Root [32]byte
	// Note is the text, signed where there is a key.
	Note      []byte
	CreatedAt time.Time
}

// AuditWaiting is what is not sealed yet.
type AuditWaiting struct {
	Entries int64
	// Oldest is the least RecordedAt. Zero: nothing waits.
	Oldest time.Time
}
