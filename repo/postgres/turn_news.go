package postgres

import "github.com/seed-df90f812/agentstore/repo/postgres/internal/write"

// newsOf says what there is to follow once a turn was committed.
func newsOf(a *write.Turn) (all []news) {
	if len(a.Messages) > 0 && a.Outcome.CreatedAt != nil {
		all = append(all, news{Key: a.SessionID, Next: a.Outcome.First + int64(len(a.Messages))})
	}
	if plan := a.Outcome.Plan; plan != nil {
		all = append(all, news{Key: queueOf(plan.Namespace), Next: planQueued})
	}
	if stream := a.Outcome.Stream; stream != nil {
		all = append(all, news{Key: a.SessionID, Next: streamOpened})
		if a.Open.Restart && stream.Next > 0 {
			all = append(all, news{Key: stream.ID, Next: stream.Next})
		}
	}
	return all
}
