package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// Change's error may be repo.ErrUnknownOutcome: no id makes a change idempotent.
func (s *state) Change(ctx context.Context, changes []repo.StateChange,
	conditions ...repo.ScopeVersion,
) ([]repo.ScopeVersion, error) {
	checked, err := rules.NormalizeStateChanges(repo.ID{}, changes, conditions)
	scopes := convert.Each(checked.Scopes, func(s rules.StateScope) repo.Scope { return s.Scope })
	if err = s.check(ctx, scopes, err); err != nil {
		return nil, err
	}
	checked.InView(s.view)
	turn := write.NewTurn(&rules.Turn{State: checked})
	if err := s.exec.append(ctx, turn); err != nil {
		return nil, s.exec.noted(rules.ErrorOutOfView(err))
	}
	made := turn.Outcome.Made.Scopes
	rules.ScopesOutOfView(made)
	return made, nil
}
