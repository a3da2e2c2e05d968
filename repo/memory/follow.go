package memory

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) Follow(ctx context.Context, sessionID repo.ID, first int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		began, next := false, first
		follow(ctx, s.handle, yield, func() (found followed[repo.Message], err error) {
			messages, watch, err := s.look(ctx, sessionID, began, next)
			if began = true; len(messages) > 0 {
				next = messages[len(messages)-1].Sequence + 1
			}
			return followed[repo.Message]{items: copiesOf(sessionID, messages), watch: watch}, err
		})
	}
}

// look reads the next messages for a follower, who has found the session before if it began, or else returns what to wait for.
func (s sessions) look(ctx context.Context, sessionID repo.ID, began bool, next int64) (found []*repo.Message, watch *watch, err error) {
	err = rules.CheckSequence("from", next)
	if err == nil && s.tables.base != nil {
		err = rules.CannotFollow()
	}
	err = exec(ctx, unless(err, s.read), func(t *tables) error {
		r, missing := s.session(t, sessionID)
		if missing != nil {
			return rules.Deleted(sessionID, began)
		}
		rest := from(r.all(), next)
		if len(rest) == 0 {
			watch = t.watch(topic{id: sessionID})
		}
		found = slices.Clone(rest[:min(streamChunk, len(rest))])
		return nil
	})
	return found, watch, err
}
