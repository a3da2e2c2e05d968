package memory

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) Follow(ctx context.Context, sessionID repo.ID, first int64) iter.Seq2[repo.Message, error] {
	wrong := rules.CheckSequence("from", first)
	if wrong == nil && s.tables.base != nil {
		wrong = rules.CannotFollow()
	}
	return func(yield func(repo.Message, error) bool) {
		began, next := false, first
		follow(ctx, s.handle, yield, func() (found followed[repo.Message], err error) {
			messages, err := run(ctx, unless(wrong, s.read), func(t *tables) ([]*repo.Message, error) {
				r, missing := s.session(t, sessionID)
				if missing != nil {
					return nil, rules.Deleted(sessionID, began)
				}
				rest := from(r.all(), next)
				if len(rest) == 0 {
					found.watch = t.watch(topic{id: sessionID})
				}
				return slices.Clone(rest[:min(streamChunk, len(rest))]), nil
			})
			found.items = copiesOf(sessionID, messages)
			if began = true; len(messages) > 0 {
				next = messages[len(messages)-1].Sequence + 1
			}
			return found, err
		})
	}
}
