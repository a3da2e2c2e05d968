package rules

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/seed-df90f812/agentstore/repo"
)

// MaxMarks bounds the beginnings of branches that a call reads, and MaxForkDepth the ancestors of a fork.
const (
	MaxMarks     = 10_000
	MaxForkDepth = 100
)

// Mark is a message that does not follow the one before it: there a branch begins.
type Mark struct{ Sequence, Follows int64 }

// Tree is what Branches needs of a session to find the messages that follow the same one, Parent.
type Tree struct {
	Parent int64
	// Base is the session's first sequence, Next its next one, and Head the transcript's last one.
	Base, Next, Head int64
	// Inherited is the message that follows Parent among a fork's inherited ones. Negative: none.
	Inherited int64
	// Marks are the session's own behind Parent, ascending.
	Marks []Mark
}

// Branches returns the branches that begin behind the parent, ascending.
func (t Tree) Branches() (branches []repo.Branch) {
	current := t.current()
	add := func(sequence int64) {
		branches = append(branches, repo.Branch{Sequence: sequence, Last: t.last(sequence), Current: sequence == current})
	}
	if t.Inherited >= 0 {
		add(t.Inherited)
	}
	if next := t.Parent + 1; next >= t.Base && next < t.Next && !t.isMark(next) {
		add(next)
	}
	for _, m := range t.Marks {
		if m.Follows == t.Parent {
			add(m.Sequence)
		}
	}
	return branches
}

func (t Tree) isMark(sequence int64) bool {
	at := t.before(sequence)
	return at >= 0 && t.Marks[at].Sequence == sequence
}

// before returns the place of the last mark that is not behind a sequence, or -1.
func (t Tree) before(sequence int64) int {
	compare := func(m Mark, s int64) int { return cmp.Compare(m.Sequence, s) }
	at, found := slices.BinarySearchFunc(t.Marks, sequence, compare)
	if found {
		return at
	}
	return at - 1
}

// current returns which of the messages that follow the parent is in the transcript, or -1.
func (t Tree) current() int64 {
	for n := t.Head; n > t.Parent; {
		switch at := t.before(n); {
		case n >= t.Base && at >= 0 && t.Marks[at].Follows == t.Parent:
			return t.Marks[at].Sequence
		case n >= t.Base && at >= 0:
			n = t.Marks[at].Follows
		case n < t.Base || t.Parent+1 < t.Base:
			return t.Inherited
		default:
			return t.Parent + 1
		}
	}
	return -1
}

// last returns the newest message that follows one, or one that follows it, and so on.
func (t Tree) last(sequence int64) int64 {
	type span struct{ low, high int64 }
	// end returns the last message of the range that begins with mark number at - 1.
	end := func(at int) int64 {
		if at < len(t.Marks) {
			return t.Marks[at].Sequence - 1
		}
		return t.Next - 1
	}
	high := t.Base - 1
	if sequence >= t.Base {
		high = end(t.before(sequence) + 1)
	} else if t.Next > t.Base && !t.isMark(t.Base) {
		high = end(t.before(t.Base) + 1)
	}
	spans := []span{{sequence, high}}
	for i, m := range t.Marks {
		if m.Sequence > sequence && slices.ContainsFunc(spans, func(s span) bool {
			return m.Follows >= s.low && m.Follows <= s.high
		}) {
			spans = append(spans, span{m.Sequence, end(i + 1)})
		}
	}
	return spans[len(spans)-1].high
}

// NoMessage is the error of a sequence that is not in a session.
func NoMessage(sequence int64) error {
	return &repo.NotFoundError{Kind: "message", Name: strconv.FormatInt(sequence, 10)}
}

// ForkTooDeep is the error of a fork that would have too many ancestors.
func ForkTooDeep() error {
	return &repo.LimitExceededError{Kind: "ancestors of a fork", Limit: MaxForkDepth}
}

// TooManyMarks is the error of a session that has too many branches to compute where they end.
func TooManyMarks() error { return &repo.LimitExceededError{Kind: "branches", Limit: MaxMarks} }

// Forked is the answer for a fork that found an existing session. same says that it is a fork of the same message.
func Forked(view string, given repo.NewSession, chosen, same bool, stored ...repo.Session) (repo.Session, error) {
	found, err := FoundSession(view, given, chosen, stored...)
	if err == nil && !same && given.Existing != repo.ExistingAny {
		return repo.Session{}, &repo.ExistsError{Kind: "session", ID: found.ID, Field: "fork"}
	}
	return found, err
}

// ImportForked is the error of a restoration of a session whose forks have messages of the deleted one.
func ImportForked(id repo.ID) error {
	return &repo.ImportError{
		Field: "session.id", Reason: "belongs to a session whose forks exist",
		Err: &repo.ExistsError{Kind: "session", ID: id, Field: "fork"},
	}
}

// NormalizeFork checks what Fork is given, and returns the session as it is stored.
func NormalizeFork(view string, at int64, session repo.NewSession) (repo.NewSession, error) {
	session, err := NormalizeSession(view, session)
	return session, cmp.Or(CheckSequence("at", at), err)
}
