package approval

import (
	"fmt"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// DecidedError reports that a request has had another outcome than the call wants. It matches repo.ErrConflict.
type DecidedError struct {
	Ref
	Status Status
	By     []string // who has decided, in the order of their votes; none: it has expired
}

func (e *DecidedError) Error() string {
	return fmt.Sprintf("%v is %s already%s", e.Ref, e.Status, by(e.By))
}
func (e *DecidedError) Is(target error) bool { return target == repo.ErrConflict }

// ForbiddenError reports that somebody may not decide. It matches repo.ErrConflict.
type ForbiddenError struct {
	Ref
	By string
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("%v is not for %q to decide", e.Ref, e.By)
}
func (e *ForbiddenError) Is(target error) bool { return target == repo.ErrConflict }

// NotPermittedError reports that a request does not permit what was to be done, now or at all. It matches
// repo.ErrConflict.
type NotPermittedError struct {
	Ref
	Status  Status
	By      []string // as of DecidedError
	Differs string   // "kind", "subject" or "arguments": what is other than was asked; empty: the status is why
}

func (e *NotPermittedError) Error() string {
	if e.Differs != "" {
		return fmt.Sprintf("%v was asked for another act: its %s differs", e.Ref, e.Differs)
	}
	return fmt.Sprintf("%v permits nothing: it is %s%s", e.Ref, e.Status, by(e.By))
}
func (e *NotPermittedError) Is(target error) bool { return target == repo.ErrConflict }

// ForeignError reports a request that was not asked here as it is stored: it came with the import of a session, or
// somebody has changed the session's state. It can be neither decided nor used. It matches repo.ErrConflict.
type ForeignError struct{ Ref }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%v was not asked in this store as it is stored: ask again with another id", e.Ref)
}
func (e *ForeignError) Is(target error) bool { return target == repo.ErrConflict }

// String returns what errors call the request.
func (r Ref) String() string { return fmt.Sprintf("approval %q of session %v", r.ID, r.SessionID) }

func by(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(", by %q", strings.Join(names, ", "))
}

func notFound(ref Ref) error { return &repo.NotFoundError{Kind: "approval", Name: ref.ID} }

// decidedBy returns who has decided a request.
func decidedBy(r Request) (names []string) {
	for _, v := range r.Votes {
		if r.Status == Expired {
			break
		}
		if (v.Verdict == Approve) == (r.Status == Approved || r.Status == Used) {
			names = append(names, v.By)
		}
	}
	return names
}
