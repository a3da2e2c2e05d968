package postgres

import (
	"time"

	"github.com/seed-df90f812/agentstore/repo"
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
		if d.verdict == deferred || d.verdict == held && a.met.heldScope == nil {
			left[t.Key] = d.verdict
		}
	}
	return decided
}

// patienceOf returns how long a session may be found locked.
func (l *ledger) patienceOf(session repo.ID) time.Duration {
	if row := l.counters[session]; row != nil {
		return row.patience
	}
	return 0
}
