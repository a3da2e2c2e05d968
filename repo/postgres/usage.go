package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

func (s *sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	turn, err := rules.UsageTurn(id, add)
	if err = s.checkSession(ctx, id, err); err != nil {
		return repo.Usage{}, err
	}
	added, err := s.appendOne(ctx, write.NewTurn(turn))
	if err != nil {
		return repo.Usage{}, err
	}
	return *added.Usage, nil
}
