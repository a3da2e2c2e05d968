package write

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// decision is what the ledger decided on a task.
type decision struct {
	verdict verdict
	err     error
}

// decideAll decides on all, in order. After one that is not answered, the later ones of
// its session are left, too, so that they keep their order, unless it leaves the groups.
func (l *ledger) decideAll(tasks []*task) map[*task]decision {
	left := map[repo.ID]verdict{}
	decided := make(map[*task]decision, len(tasks))
	for _, t := range tasks {
		a, d := t.Item, decision{verdict: left[t.Key]}
		if d.verdict == answered {
			d.verdict, d.err = l.decide(a)
		}
		decided[t] = d
		if d.verdict == deferred || d.verdict == locked && a.met.lockedScope == nil {
			left[t.Key] = d.verdict
		}
	}
	return decided
}

// patienceOf returns how long a row of a turn may be found locked.
func (l *ledger) patienceOf(a *Turn) time.Duration {
	switch row := l.counters[a.SessionID]; {
	case row != nil:
		return row.patience
	case l.lockTimeout != nil:
		return conn.PatienceOf(*l.lockTimeout)
	}
	return 0
}

// verdict is what was decided on an append or turn.
type verdict int

const (
	// answered: it is not written, and its result says why.
	answered verdict = iota
	// accepted: it is written.
	accepted
	// locked: a row that it needs is locked elsewhere.
	locked
	// deferred: it has an id that another one of the transaction writes.
	deferred
)

// decide decides on the next append or turn. It sets its outcome, or what of it is
// known before it is written. The error is its answer.
func (l *ledger) decide(a *Turn) (verdict, error) {
	a.Outcome, a.met = Outcome{}, barrier{}
	counter := l.counters[a.SessionID]
	if a.SessionID.IsZero() {
		counter = &counterRow{patience: l.patienceOf(a)}
	}
	switch {
	case a.SessionID.IsZero() && a.Unsure: // no id says whether it was made
		return answered, &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	case counter == nil:
		if a.Unsure { // it may have been written, and the session deleted
			return answered, &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
		}
		return answered, pgx.ErrNoRows
	case counter.locked:
		return locked, nil
	case l.givesAgain(a):
		return deferred, nil
	}
	a.Outcome.First = counter.next
	var digest []byte
	if row, found := l.turns[ofTurn{a.SessionID, a.ID}]; found && a.ID != "" {
		a.Outcome.Stored, digest = &row, row.Digest
	}
	known := slices.IndexFunc(a.Messages, func(m repo.NewMessage) bool { return l.messages[ofSession{a.SessionID, m.ID}] })
	if again, err := a.Again(digest, known >= 0); again {
		a.Outcome.Known = a.ID == ""
		return answered, err
	}
	if v, err := l.meets(a, counter); v == locked || err != nil {
		return v, err
	}
	rows := l.rowsOf(a, counter)
	if known >= 0 {
		rows.Known = a.Messages[known].ID
	}
	made, err := a.Add(rows)
	if err == nil {
		err = l.checkWork(a)
	}
	if err != nil {
		return answered, a.refusal(err)
	}
	a.Outcome.Made = made
	l.accept(a, counter)
	return accepted, nil
}

// meets returns what is in the way of a turn: a row that is locked, or a scope that has none.
func (l *ledger) meets(a *Turn, counter *counterRow) (verdict, error) {
	for _, scope := range a.State.Scopes {
		row := l.scopes[scope.Scope]
		switch {
		case row == nil:
			a.met.missing = append(a.met.missing, scope.Scope)
		case row.locked:
			if scope.Scope.Name != "" {
				a.met.lockedScope, a.met.patience = &scope.Scope, counter.patience
			}
			return locked, nil
		}
	}
	switch {
	case len(a.met.missing) > 0:
		a.met.patience = counter.patience
		return answered, errNoScope
	case a.Usage != nil && l.usages[a.SessionID] == nil:
		return locked, nil
	}
	return answered, nil
}

// rowsOf returns what a turn depends on.
func (l *ledger) rowsOf(a *Turn, counter *counterRow) *rules.TurnRows {
	rows := &rules.TurnRows{
		Fence: counter.fenceOf(a.SessionID), Next: counter.next, Head: rules.Head(counter.follows, counter.next), Now: l.now,
	}
	if a.After != nil {
		rows.HasAfter = l.has[ofPlace{a.SessionID, *a.After}] || *a.After >= counter.stored && *a.After < counter.next
	}
	if a.Usage != nil {
		usage := l.usages[a.SessionID]
		rows.Usage, rows.Budget = usage.total, usage.budget
		if added, found := l.added[ofSession{a.SessionID, a.Usage.ID}]; found {
			rows.AddedUsage = &added
		}
	}
	for _, scope := range a.State.Scopes {
		rows.Versions = append(rows.Versions, l.scopes[scope.Scope].version)
	}
	for _, change := range a.State.Changes {
		rows.Values = append(rows.Values, l.values[ofScope{change.Scope, change.Key}])
	}
	return rows
}

// givesAgain reports whether one that was accepted has an id of this one's, of the same
// kind: a usage may have the id of a message.
func (l *ledger) givesAgain(a *Turn) bool {
	return a.Repeatable && slices.ContainsFunc(a.Messages,
		func(m repo.NewMessage) bool { return l.messageIDs[ofSession{a.SessionID, m.ID}] }) ||
		a.ID != "" && l.turnIDs[ofTurn{a.SessionID, a.ID}] || a.Usage != nil && l.usageIDs[ofSession{a.SessionID, a.Usage.ID}]
}

// accept notes what a turn changes. If it has no messages, it may say what the next one follows.
func (l *ledger) accept(a *Turn, counter *counterRow) {
	made := a.Outcome.Made
	if made.AddsUsage {
		usage := l.usages[a.SessionID]
		usage.total, usage.changed = made.Usage, true
		l.used = append(l.used, a)
		l.usageIDs[ofSession{a.SessionID, a.Usage.ID}] = true
	}
	l.acceptState(made)
	if a.Plan != nil || a.Open != nil {
		l.working = append(l.working, a)
	}
	if a.ID != "" {
		l.inserted = append(l.inserted, a)
		l.turnIDs[ofTurn{a.SessionID, a.ID}] = true
	}
	if a.After != nil {
		counter.follows = rules.Follows(a.After, counter.follows, counter.next)
		if counter.follows != nil && !l.branched[a.SessionID] {
			l.branched[a.SessionID] = true
			l.branching = append(l.branching, a.SessionID)
		}
	}
	if len(a.Messages) == 0 {
		return
	}
	a.Outcome.Follows, counter.follows = counter.follows, nil
	if len(counter.appends) == 0 {
		l.sessions = append(l.sessions, a.SessionID)
	}
	counter.appends = append(counter.appends, a)
	counter.next += int64(len(a.Messages))
	if a.Repeatable {
		for i := range a.Messages {
			l.messageIDs[ofSession{a.SessionID, a.Messages[i].ID}] = true
		}
	}
}

// acceptState notes what state changes.
func (l *ledger) acceptState(made rules.TurnChanges) {
	for _, scope := range made.Scopes {
		row := l.scopes[scope.Scope]
		row.version, row.changed = scope.Version, true
	}
	for _, w := range made.Values {
		at := ofScope{w.Scope, w.Key}
		l.writes[at], l.values[at] = w, nil
		if w.Value != nil {
			l.values[at] = &repo.StateValue{Key: w.Key, Value: w.Value, Version: w.Version}
		}
	}
}
