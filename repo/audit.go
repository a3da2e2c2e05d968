package repo

import (
	"encoding/json"
	"time"
)

// AuditEntry records an event. Once recorded it never changes. Its JSON form is a
// line of an export, which omits the optional fields that are not set.
type AuditEntry struct {
	// ID makes recording idempotent: an entry that is recorded already, or was
	// recorded and has been pruned, is not recorded again. Zero, when recording: a new
	// ID.
	ID ID `json:"id"`
	// OccurredAt is the time of the event by the caller's clock, to the microsecond, in
	// the years 2000 to 2100 of UTC. Zero, when recording: the time in ID, which for a
	// new ID is now. An ID without such a time needs OccurredAt.
	OccurredAt time.Time `json:"occurred_at"`
	// RecordedAt is set by the database's clock. It is ignored when recording.
	RecordedAt time.Time `json:"recorded_at"`
	// Type is one of the event types, or a registered one.
	Type EventType `json:"type"`
	// Namespace is that of what the event concerns: entries of the store's own have
	// the session's or the plan's. It is optional, at most MaxNameBytes.
	Namespace string `json:"namespace,omitempty"`
	// Actor is the agent, and User the person on whose behalf it acts. Both are
	// optional, at most MaxNameBytes each.
	Actor string `json:"actor,omitempty"`
	User  string `json:"user,omitempty"`
	// PlanID and SessionID are the plan and the session that the event concerns.
	// Zero: none. They need not exist.
	PlanID    ID `json:"plan_id,omitzero"`
	SessionID ID `json:"session_id,omitzero"`
	// Project is optional, at most MaxNameBytes.
	Project string `json:"project,omitempty"`
	// Details is a JSON object of at most MaxMetadataBytes, stored byte for byte.
	// Nil: "{}".
	Details json.RawMessage `json:"details"`
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
	// AtLeast reports whether there are more than Entries.
	AtLeast bool
}

// AuditRecorded is the result of recording a batch.
type AuditRecorded struct {
	// Written counts the new entries, Known those that were recorded already.
	Written, Known int
}

// AuditPoison is an entry that the database refuses because of its values.
type AuditPoison struct {
	ID ID
	// Document is the entry as JSON. It is bytes because it may be invalid as text.
	Document []byte
	// Reason is the database's error, without values.
	Reason string
}

// AuditPrune says what to remove from the trail.
type AuditPrune struct {
	// Before bounds OccurredAt, exclusive. It is required.
	Before time.Time
	// Types: empty means all. EventAuditPruned and EventAuditGap are never
	// removed, because they record what is missing.
	Types []EventType
	// DryRun counts the entries without removing them.
	DryRun bool
	// Actor and Reason are recorded in the prune's own entry.
	Actor, Reason string
}

// AuditPruneDetails are the details of the entry that a prune records. They are its
// bounds: the prune removes no entry outside them, and verification does not accept
// an entry outside them as pruned.
type AuditPruneDetails struct {
	// Before bounds OccurredAt, exclusive.
	Before time.Time `json:"before"`
	// Types: empty means all.
	Types  []EventType `json:"types,omitempty"`
	Reason string      `json:"reason,omitempty"`
	// Held names the holds at the time of the prune.
	Held AuditHeldDetails `json:"held"`
}

// AuditHeldDetails name holds by the ids' 32 hexadecimal digits.
type AuditHeldDetails struct {
	Plans    []string `json:"plans,omitempty"`
	Sessions []string `json:"sessions,omitempty"`
}

// AuditPruned is the result of a prune.
type AuditPruned struct {
	// Entries is the number of entries removed.
	Entries int64
	// Held is the number of entries kept because of a legal hold.
	Held int64
	// Unsealed is the number of entries kept because they are not sealed yet.
	Unsealed int64
}

// AuditHold protects the entries of one plan or session from being pruned.
type AuditHold struct {
	// Exactly one of PlanID and SessionID is set.
	PlanID, SessionID ID
	Reason            string
	CreatedAt         time.Time
}

// SealedEntry is an entry with what its leaf also hashes.
type SealedEntry struct {
	AuditEntry
	// Salts has, for each field that can be erased (Actor, User, Project, Details, in
	// this order), 16 random bytes, which prevent guessing it from its digest; or, of a
	// field that was erased, its digest of 32 bytes. An erased text is empty, and erased
	// details are "{}". See package audit's LeafHash.
	Salts [][]byte
}

// AuditLeaf is one leaf of the log.
type AuditLeaf struct {
	// Sequence is the leaf's index: 0 is the first.
	Sequence   int64
	EntryID    ID
	OccurredAt time.Time
	// Hash is the leaf's record hash, which is kept when the entry is pruned.
	Hash [32]byte
	// Entry is the stored entry. Nil: it does not exist any more.
	Entry *SealedEntry
	// PrunedBy is the id of the entry about the prune that removed it. Zero: it
	// was not pruned.
	PrunedBy ID
	// Kept is what the leaf keeps of the entry: see package audit's LeafHash.
	Kept AuditKept
}

// AuditKept is what a leaf keeps of a pruned entry, besides its id and OccurredAt.
type AuditKept struct {
	RecordedAt        time.Time
	Type              EventType
	Namespace         string
	PlanID, SessionID ID
	// Hidden is the SHA-256 hash of the digests of the other fields.
	Hidden [32]byte
}

// AuditUnsealed is the input of a sealer.
type AuditUnsealed struct {
	// Size is the number of leaves so far.
	Size int64
	// Entries are the next entries to seal, in order.
	Entries []SealedEntry
	// More reports whether there are further unsealed entries.
	More bool
	// Identity is the database's: see AuditLog.
	Identity ID
}

// AuditSeal is the result of a sealer.
type AuditSeal struct {
	// Leaves are the record hashes of the entries, in order.
	Leaves [][32]byte
	// Hidden are the entries' AuditKept.Hidden, in order.
	Hidden [][32]byte
	// Hashes are the tree's new stored hashes, in order, to be stored from
	// FirstHash on.
	FirstHash int64
	Hashes    [][32]byte
	// Checkpoint is the checkpoint of the tree with these leaves.
	Checkpoint AuditCheckpoint
}

// AuditCheckpoint states the size and the root of the log.
type AuditCheckpoint struct {
	Size int64
	Root [32]byte
	// Note is the checkpoint's text, signed if there is a key.
	Note      []byte
	CreatedAt time.Time
}

// AuditWaiting describes the entries that are not sealed yet.
type AuditWaiting struct {
	Entries int64
	// Oldest is the earliest RecordedAt. Zero: there are no such entries. Age is
	// how long ago that was by the database's clock, which may differ from the
	// caller's.
	Oldest time.Time
	Age    time.Duration
}

// AuditFinding is a problem of the audit trail in the database.
type AuditFinding struct {
	// Check is the kind: triggers, grants, functions, sealing or quarantine.
	Check string `json:"check"`
	// Problem is a sentence that says what is wrong, and Action how to correct it:
	// a statement for the owner of the tables, or a sentence.
	Problem string `json:"problem"`
	Action  string `json:"action"`
}
