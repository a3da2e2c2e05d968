package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
)

// statement has the appends to one session that one statement makes, or is a part of one
// that makes those of several sessions.
type statement struct {
	appends []*turn
	tasks   []*task // of the appends, in a group
	// fence is the token that all have. 0: none.
	fence    int64
	checkIDs bool
	// rewound: what the appends follow was found out, under the session's lock.
	rewound bool
	// hint is where the counter row may be.
	hint pgtype.TID
}

// newStatement returns the statement of one append.
func newStatement(a *turn) *statement {
	return &statement{appends: []*turn{a}, fence: a.fence, checkIDs: a.repeatable || a.Unsure}
}

func (s *statement) sessionID() repo.ID { return s.appends[0].sessionID }
func (s *statement) expected() *int64   { return s.appends[0].expected }

// isPlain reports whether the only reasons for which nothing is written are that the
// session's row is locked, or that there is no session. The first is more likely, until
// the row was skipped once.
func (s *statement) isPlain() bool {
	return !s.checkIDs && s.fence == 0 && s.expected() == nil &&
		!slices.ContainsFunc(s.appends, func(a *turn) bool { return !a.Skipped().IsZero() })
}

// size is the number of messages.
func (s *statement) size() (size int) {
	for _, a := range s.appends {
		size += len(a.messages)
	}
	return size
}

// written sets the outcomes of the appends, whose messages were written from a sequence on.
func (s *statement) written(first int64, createdAt time.Time) {
	for _, a := range s.appends {
		a.outcome = outcome{first: first, createdAt: &createdAt}
		first += int64(len(a.messages))
	}
}

// statements joins consecutive appends that one statement can make: those that expect
// no sequence, have the same token and give no id twice.
func statements(tasks []*task) []*statement {
	var all []*statement
	var last *statement
	given := map[repo.ID]struct{}{} // by callers, in the last statement
	for _, t := range tasks {
		a := t.Item.(*turn)
		if last == nil || last.sessionID() != t.Key || last.expected() != nil ||
			a.expected != nil || a.fence != last.fence || a.repeatable && givesAgain(given, a) {
			last = &statement{fence: a.fence}
			all = append(all, last)
			clear(given)
		}
		last.appends, last.tasks = append(last.appends, a), append(last.tasks, t)
		last.checkIDs = last.checkIDs || a.repeatable || a.Unsure
		if a.repeatable {
			for i := range a.messages {
				given[a.messages[i].ID] = struct{}{}
			}
		}
	}
	return all
}

func givesAgain(given map[repo.ID]struct{}, a *turn) bool {
	return slices.ContainsFunc(a.messages, func(m repo.NewMessage) bool {
		_, again := given[m.ID]
		return again
	})
}
