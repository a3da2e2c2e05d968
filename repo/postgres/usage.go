package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// AddUsage is one statement, which checks, adds and notes the usage's id. An
// attempt whose answer was lost is made again: the id makes that safe. Only where
// the statement adds nothing, and the id may have been stored while it waited for
// the session, another one looks.
func (s *sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	given := !add.ID.IsZero()
	add, err := add.Normalize()
	if err != nil {
		return repo.Usage{}, err
	}
	var row db.SessionAddUsageRow
	lost := false // the answer of an attempt, which may have added
	err = s.exec.writeByID(ctx, func(q db.DBTX) (err error) {
		row, err = queries.SessionAddUsage(ctx, q, db.SessionAddUsageParams{
			ID:           toUUID(id),
			UsageID:      toUUID(add.ID),
			InputTokens:  add.InputTokens,
			OutputTokens: add.OutputTokens,
			CostNanos:    int64(add.Cost),
		})
		lost = lost || errors.Is(translate(ctx, err, committing), repo.ErrUnknownOutcome)
		return err
	})
	switch {
	case errors.Is(err, repo.ErrUnknownOutcome):
		return repo.Usage{}, err
	case isNoRows(err):
		return repo.Usage{}, refusedUsage(lost, sessionNotFound(id))
	case hasCode(err, outOfRange):
		return repo.Usage{}, &repo.InvalidError{Field: "usage", Reason: "would pass 2^63-1 in total"}
	case err != nil:
		return repo.Usage{}, err
	}
	totals := repo.Usage{InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, Cost: repo.Cost(row.CostNanos)}
	switch {
	case row.Added:
		totals.InputTokens += add.InputTokens
		totals.OutputTokens += add.OutputTokens
		totals.Cost += add.Cost
		return totals, nil
	case row.KnownCostNanos != nil:
		known := repo.Usage{
			InputTokens: *row.KnownInputTokens, OutputTokens: *row.KnownOutputTokens, Cost: repo.Cost(*row.KnownCostNanos),
		}
		if err := add.Conflict(id, known); err != nil {
			return repo.Usage{}, err
		}
		return totals, nil
	case given || lost:
		if totals, found, err := s.knownUsage(ctx, id, add); found || err != nil {
			return totals, err
		}
	}
	if row.BudgetNanos == nil { // the id was stored meanwhile, and the session deleted
		return repo.Usage{}, refusedUsage(lost, sessionNotFound(id))
	}
	return repo.Usage{}, refusedUsage(lost, &repo.BudgetExceeded{
		SessionID: id,
		Budget:    repo.Cost(*row.BudgetNanos),
		Cost:      totals.Cost,
		Requested: add.Cost,
	})
}

// refusedUsage is the answer when nothing was added: the reason, unless an earlier
// attempt may still arrive, and find a session that takes it.
func refusedUsage(lost bool, reason error) error {
	if lost {
		return &storeError{repo.ErrUnknownOutcome, errLateAttempt}
	}
	return reason
}

// knownUsage looks for the usage under its id, and compares.
func (s *sessions) knownUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (totals repo.Usage, found bool, err error) {
	var row db.SessionUsageGetRow
	err = s.exec.read(ctx, func(q db.DBTX) (err error) {
		row, err = queries.SessionUsageGet(ctx, q, toUUID(id), toUUID(add.ID))
		return err
	})
	if isNoRows(err) {
		return repo.Usage{}, false, nil
	}
	if err != nil {
		return repo.Usage{}, false, s.exec.unread(err)
	}
	conflict := add.Conflict(id, repo.Usage{
		InputTokens: row.KnownInputTokens, OutputTokens: row.KnownOutputTokens, Cost: repo.Cost(row.KnownCostNanos),
	})
	if conflict != nil {
		return repo.Usage{}, true, conflict
	}
	return repo.Usage{InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, Cost: repo.Cost(row.CostNanos)}, true, nil
}
