package auditlog

import (
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Recorded is the result of recording a batch.
type Recorded struct {
	// Written counts the new entries, Known the entries that were recorded already.
	Written, Known int
}

// Poison is an entry that the database refuses because of its values.
type Poison struct {
	ID repo.ID
	// Document is the entry as JSON. It is bytes because it may be invalid as text.
	Document []byte
	// Reason is the database's error, without values.
	Reason string
}

// Prune says what to remove from the trail.
type Prune struct {
	// Before bounds OccurredAt, exclusive. It is required.
	Before time.Time
	// Types: nil means all; an empty list is refused. EventAuditPruned and EventAuditGap are never
	// removed, because they record what is missing.
	Types []string
	// DryRun counts the entries without removing them.
	DryRun bool
	// Actor and Reason are recorded in the prune's own entry.
	Actor, Reason string
}

// PruneDetails are the details of the entry that a prune records. They are its
// bounds: the prune removes no entry outside them, and verification does not accept
// an entry outside them as pruned.
type PruneDetails struct {
	// Before bounds OccurredAt, exclusive.
	Before time.Time `json:"before"`
	// Types: empty means all.
	Types  []string `json:"types,omitempty"`
	Reason string   `json:"reason,omitempty"`
	// Held names the holds at the time of the prune.
	Held HeldDetails `json:"held"`
}

// HeldDetails name holds by the ids' 32 hexadecimal digits.
type HeldDetails struct {
	Plans    []string `json:"plans,omitempty"`
	Sessions []string `json:"sessions,omitempty"`
}

// Pruned is the result of a prune.
type Pruned struct {
	// Entries is the number of entries removed.
	Entries int64
	// Held is the number of entries kept because of a legal hold.
	Held int64
	// Unsealed is the number of entries kept because they are not sealed yet.
	Unsealed int64
}

// Hold protects the entries of one plan or session from being pruned.
type Hold struct {
	// Exactly one of PlanID and SessionID is set.
	PlanID, SessionID repo.ID
	Reason            string
	CreatedAt         time.Time
}

// Entry is an entry with what its leaf also hashes.
type Entry struct {
	repo.AuditEntry
	// Salts has, for each field that can be erased (Actor, User, Project, Details, in
	// this order), 16 random bytes, which prevent guessing it from its digest; or, of a
	// field that was erased, its digest of 32 bytes. An erased text is empty, and erased
	// details are "{}". See package audit's LeafHash.
	Salts [][]byte
}

// Leaf is one leaf of the log.
type Leaf struct {
	// Sequence is the leaf's index: 0 is the first.
	Sequence   int64
	EntryID    repo.ID
	OccurredAt time.Time
	// Hash is the leaf's record hash, which is kept when the entry is pruned.
	Hash [32]byte
	// Entry is the stored entry. Nil: it does not exist any more.
	Entry *Entry
	// PrunedBy is the id of the entry about the prune that removed it. Zero: it
	// was not pruned.
	PrunedBy repo.ID
	// Kept is what the leaf keeps of the entry: see package audit's LeafHash.
	Kept Kept
}

// Kept is what a leaf keeps of a pruned entry, besides its id and OccurredAt.
type Kept struct {
	RecordedAt        time.Time
	Type              string
	Namespace         string
	PlanID, SessionID repo.ID
	// Hidden is the SHA-256 hash of the digests of the other fields.
	Hidden [32]byte
}

// Unsealed is the input of a sealer.
type Unsealed struct {
	// Size is the number of leaves so far.
	Size int64
	// Entries are the next entries to seal, in order.
	Entries []Entry
	// More reports whether there are further unsealed entries.
	More bool
	// Identity is the database's: see Log.
	Identity repo.ID
}

// Seal is the result of a sealer.
type Seal struct {
	// Leaves are the record hashes of the entries, in order.
	Leaves [][32]byte
	// Hidden are the entries' Kept.Hidden, in order.
	Hidden [][32]byte
	// Hashes are the tree's new stored hashes, in order, to be stored from
	// FirstHash on.
	FirstHash int64
	Hashes    [][32]byte
	// Checkpoint is the checkpoint of the tree with these leaves.
	Checkpoint Checkpoint
}

// Checkpoint states the size and the root of the log.
type Checkpoint struct {
	Size int64
	Root [32]byte
	// Note is the checkpoint's text, signed if there is a key.
	Note      []byte
	CreatedAt time.Time
}

// Waiting describes the entries that are not sealed yet.
type Waiting struct {
	Entries int64
	// Oldest is the earliest RecordedAt. Zero: there are no such entries. Age is
	// how long ago that was by the database's clock, which may differ from the
	// caller's.
	Oldest time.Time
	Age    time.Duration
}

// Finding is a problem of the audit trail in the database.
type Finding struct {
	// Check is the kind: triggers, grants, functions, sealing or quarantine.
	Check string `json:"check"`
	// Problem is a sentence that says what is wrong, and Action how to correct it:
	// a statement for the owner of the tables, or a sentence.
	Problem string `json:"problem"`
	Action  string `json:"action"`
}
