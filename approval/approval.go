// Package approval asks people before something is done. A request names what it permits, its deciders, its quorum and
// its expiry. It is stored in the state of a session, so that nothing waits in a process. It gets one outcome, also if
// deciders race, and an approval may be used once. The package uses only the contract of package repo, and works with
// every store. docs/approvals.md has the tasks.
//
// Each vote, outcome and use is recorded in the audit trail, in its commit, as an entry of the type user_approval. Its
// details have the request's id, kind and status, and the hash of the arguments. They contain no text.
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
	Expired   Status = "expired" // it was still undecided, or unused, at Until
	Used      Status = "used"
)

// Verdict is an answer to a request.
type Verdict string

// The verdicts. The asker withdraws; the deciders approve and deny.
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
	// By names the asker, in 1 to repo.MaxNameBytes bytes. Only the asker may withdraw the request.
	By string
	// Deciders are the 1 to MaxDeciders people and groups that may decide. The request is in the list of each. A
	// group needs Options.MayDecide, which knows its members.
	Deciders []string
	Quorum   int // approvals that it needs, from 1 to MaxQuorum; zero: 1. One denial is enough.
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

// Request is a stored request. Its JSON form is the value in the session's state.
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
	// MayDecide reports whether a person may decide that Deciders does not name, such as a member of a named group.
	// It is called outside of a transaction, and may be called again.
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

// New returns the requests of a namespace; empty means repo.DefaultNamespace. A store with views is used through the
// view of the namespace; another store must be that view. A transaction that is passed to Ask or Use must be of the
// view or, for repo.DefaultNamespace, of the whole store. Errors: InvalidError of the store, if it is nil.
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
