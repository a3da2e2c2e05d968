package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

var queries = db.New()

// sessions is repo.Sessions: sessions here, messages in the files beside.
type sessions struct{ exec executor }

func (s *sessions) Create(ctx context.Context, new repo.NewSession) (repo.Session, error) {
	new, err := new.Normalize()
	if err != nil {
		return repo.Session{}, err
	}
	created, err := run(ctx, s.exec.writeByID, queries.SessionCreate, db.SessionCreateParams{
		ID:                toUUID(new.ID),
		Namespace:         new.Namespace,
		Actor:             toNullable(new.Actor),
		AutomationProfile: toNullable(new.AutomationProfile),
		Metadata:          string(new.Metadata),
		BudgetNanos:       (*int64)(new.Budget),
	})
	if isNoRows(err) {
		return s.existing(ctx, new)
	}
	if err != nil {
		return repo.Session{}, err
	}
	return repo.Session{
		ID:                new.ID,
		Namespace:         new.Namespace,
		Actor:             new.Actor,
		AutomationProfile: new.AutomationProfile,
		Metadata:          new.Metadata,
		Budget:            new.Budget,
		CreatedAt:         created.CreatedAt.UTC(),
		UpdatedAt:         created.UpdatedAt.UTC(),
	}, nil
}

// existing answers a creation whose id is taken.
func (s *sessions) existing(ctx context.Context, new repo.NewSession) (repo.Session, error) {
	stored, err := s.Get(ctx, new.ID)
	if err != nil {
		return repo.Session{}, s.exec.unread(err)
	}
	if err := new.Conflict(stored); err != nil {
		return repo.Session{}, err
	}
	return stored, nil
}

func (s *sessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	row, err := run(ctx, s.exec.read, queries.SessionGet, toUUID(id))
	if isNoRows(err) {
		return repo.Session{}, sessionNotFound(id)
	}
	if err != nil {
		return repo.Session{}, err
	}
	return sessionOf(row), nil
}

func (s *sessions) Update(ctx context.Context, id repo.ID, update repo.SessionUpdate) (repo.Session, error) {
	if err := update.Validate(); err != nil {
		return repo.Session{}, err
	}
	row, err := run(ctx, s.exec.write, queries.SessionUpdate, db.SessionUpdateParams{
		ID:                   toUUID(id),
		SetActor:             update.Actor != nil,
		Actor:                optional(update.Actor),
		SetAutomationProfile: update.AutomationProfile != nil,
		AutomationProfile:    optional(update.AutomationProfile),
		Metadata:             toText(update.Metadata),
		SetBudget:            update.Budget != nil || update.RemoveBudget,
		BudgetNanos:          (*int64)(update.Budget),
	})
	if isNoRows(err) {
		return repo.Session{}, sessionNotFound(id)
	}
	if err != nil {
		return repo.Session{}, err
	}
	if !row.Fits {
		return repo.Session{}, &repo.BudgetExceeded{SessionID: id, Budget: *update.Budget, Cost: repo.Cost(row.CostNanos)}
	}
	return sessionOf(db.SessionGetRow{
		ID: row.ID, Namespace: row.Namespace, Actor: row.Actor, AutomationProfile: row.AutomationProfile, Metadata: row.Metadata,
		InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, CostNanos: row.CostNanos, BudgetNanos: row.BudgetNanos,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, NextSequence: row.NextSequence,
		PlanIds: row.PlanIds, PlanStages: row.PlanStages,
	}), nil
}

func (s *sessions) Delete(ctx context.Context, id repo.ID) (repo.DeletedSession, error) {
	var row db.SessionDeleteRow
	err := s.exec.atomically(ctx, func(q db.DBTX) error {
		if _, err := queries.SessionLockWhole(ctx, q, toUUID(id)); err != nil {
			return err
		}
		var err error
		row, err = queries.SessionDelete(ctx, q, toUUID(id))
		return err
	})
	if isNoRows(err) {
		return repo.DeletedSession{}, sessionNotFound(id)
	}
	if err != nil {
		return repo.DeletedSession{}, err
	}
	return repo.DeletedSession{Messages: row.NextSequence, Plans: row.Plans}, nil
}
