package postgres

import "github.com/seed-df90f812/agentstore/repo/postgres/internal/write"

// newsOfTurn says what there is to follow once a turn was committed.
func newsOfTurn(a *write.Turn) (all []news) {
	if len(a.Messages) > 0 && a.Outcome.CreatedAt != nil {
		all = append(all, grown(a.SessionID, a.Outcome.First+int64(len(a.Messages))))
	}
	if plan := a.Outcome.Plan; plan != nil {
		all = append(all, queued(plan.Namespace)...)
	}
	if stream := a.Outcome.Stream; stream != nil {
		all = append(all, newsOf(aboutStreams, a.SessionID))
		if a.Open.Restart && stream.Next > 0 {
			all = append(all, grown(stream.ID, stream.Next))
		}
	}
	return all
}
