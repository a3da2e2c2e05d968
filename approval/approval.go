// Package approval asks people before something is done. A request says what it permits, who may decide, how many must,
// and until when. It is kept in the state of a session, so that nothing waits in a process; one outcome falls, whoever
// decides at once; and what was approved may be done once. It is built on the contract of package repo alone, and works
// with every store. docs/approvals.md has it by task.
//
// Each vote, outcome and use is recorded in the audit trail, in its commit, as an entry of the type user_approval. Its
// details have the request's id, kind and status, and the hash of the arguments, but no text.
package approval

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Bounds of a request and of a call.
const (
	MaxDeciders = 20       // names in a request
	MaxQuorum   = 50       // how many must approve
	MaxAnswers  = 40       // of one call of Decide
	MaxText     = 64 << 10 // bytes of a request's text
	MaxReason   = 1 << 10  // bytes of the reason of an answer
	MaxPage     = 100      // of List, which has 20 if the page has no limit
	MaxCount    = 10_000   // of Count, which counts up to 1,000 if there is no limit
)

// Status is where a request stands.
type Status string

// The statuses. Open and Approved are followed by another one; of an approved request only Used and Expired.
const (
	Open      Status = "open"
	Approved  Status = "approved" // and not used yet
	Denied    Status = "denied"
	Withdrawn Status = "withdrawn"
	Expired   Status = "expired" // nobody has decided, or used it, until then
	Used      Status = "used"
)

// Verdict is what somebody says to a request.
type Verdict string

// The verdicts. Whoever asks withdraws; the deciders do the others.
const (
	Approve  Verdict = "approve"
	Deny     Verdict = "deny"
	Withdraw Verdict = "withdraw"
)

// Ref names a request: that with an id in a session.
type Ref struct {
	SessionID repo.ID
	// ID has 1 to repo.MaxNameBytes bytes, such as the id of a tool's call. It is the idempotency key of the request.
	ID string
}

// Act is what a request permits. All three are compared byte by byte when the approval is used.
type Act struct {
	Kind    string // of 1 to repo.MaxNameBytes bytes, such as the name of a tool
	Subject string // what is acted on, of at most repo.MaxNameBytes bytes; optional
	// Arguments are kept as their hash alone. Encode them once, and do what these bytes say.
	Arguments []byte
}

// NewRequest asks. Text, SelfApproval, PlanID and Fence are optional, and so is Quorum.
type NewRequest struct {
	Ref
	Act
	Text string // what people read, at most MaxText
	// By is who asks, of 1 to repo.MaxNameBytes bytes, and the only one who may withdraw the request.
	By string
	// Deciders are the 1 to MaxDeciders people and groups who may decide, and for whom the request is listed. A group
	// needs Options.MayDecide, which knows who is in it.
	Deciders []string
	Quorum   int // how many people must approve, from 1 to MaxQuorum; zero: 1. One who denies is enough.
	// Until is when the request, or the approval that is not used, expires by the database's clock, in the years 2000 to
	// 9999.
	Until        time.Time
	SelfApproval bool // By may decide, too
	// PlanID is a plan of the namespace that waits for the outcome, which wakes it. It is processing, with Fence of its
	// lease, or complete with a phase to come, or not due before Until: see Ask. Zero: none.
	PlanID repo.ID
	Fence  int64
}

// Vote is what one person has said.
type Vote struct {
	By      string  `json:"by"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
}

// Request is a request as it is stored. Its JSON form is that in the session's state.
type Request struct {
	Ref           `json:"-"`
	Kind          string    `json:"kind"`
	Subject       string    `json:"subject,omitempty"`
	ArgumentsHash string    `json:"arguments_sha256"` // in lower-case hexadecimal
	Text          string    `json:"text,omitempty"`
	By            string    `json:"by"`
	Deciders      []string  `json:"deciders"` // sorted
	Quorum        int       `json:"quorum"`
	Until         time.Time `json:"until"`
	SelfApproval  bool      `json:"self_approval,omitempty"`
	PlanID        repo.ID   `json:"plan_id,omitzero"`
	Status        Status    `json:"status"`
	Votes         []Vote    `json:"votes,omitempty"` // in the order of their commits
	UpdatedAt     time.Time `json:"-"`               // by the database's clock: when it was asked, or changed last
}

// Options are optional.
type Options struct {
	// MayDecide says whether somebody may decide who is not named, such as a member of a group that is. It is asked
	// outside of a transaction, and may be asked again.
	MayDecide func(ctx context.Context, request Request, by string) (bool, error)
	// Decided is called in the transaction in which an outcome falls, also by expiry, after the plan was woken: to append
	// the result of a tool's call, or to queue a plan that goes on. An error undoes the decision. It may be called again.
	Decided func(ctx context.Context, tx repo.Repositories, request Request) error
}

// Approvals are the requests of one namespace. They are safe for concurrent use.
type Approvals struct {
	store     repo.Store
	namespace string
	options   Options
}

type views interface {
	In(namespace string) repo.Store
}

// New returns the requests of a namespace; empty means repo.DefaultNamespace. A store that has views is looked at by
// that of the namespace; another one has to be that view. A transaction that is passed to Ask or Use has to be one of
// the view, or for repo.DefaultNamespace of the whole store. Errors: InvalidError of the store, if it is nil.
func New(store repo.Store, namespace string, options Options) (*Approvals, error) {
	if store == nil {
		return nil, &repo.InvalidError{Field: "store", Reason: "is nil"}
	}
	namespace = cmp.Or(namespace, repo.DefaultNamespace)
	if whole, has := store.(views); has {
		store = whole.In(namespace)
	}
	return &Approvals{store, namespace, options}, nil
}

// Sum tells requests apart by all that was asked, which never changes: see Answer.Sum.
func (r Request) Sum() string { return hash(encode(r.as("", nil))) }

// ScopeOf is the name of the shared state with what waits for a person or a group. It has ids of sessions and requests,
// and no text. To erase a person, name it in erase.Request.Scopes.
func ScopeOf(name string) string { return repo.JoinKey("approval", "for", name) }
