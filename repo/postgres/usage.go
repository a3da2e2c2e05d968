package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// AddUsage checks the budget, adds the usage and stores its id in one statement. It
// retries if an answer was lost, which the id makes safe. If the statement added
// nothing, and the id may have been stored while it waited for the session's row, a
// second statement looks for the id.
func (s *sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	given := !add.ID.IsZero()
	add, err := rules.NormalizeUsage(add)
	if err = s.checkSession(ctx, id, err); err != nil {
		return repo.Usage{}, err
	}
	var row db.SessionAddUsageRow
	lost := false // the answer of an attempt, which may have added the usage
	err = s.exec.writeByID(ctx, func(q db.DBTX) (err error) {
		row, err = queries.SessionAddUsage(ctx, q, db.SessionAddUsageParams{
			ID:           toUUID(id),
			UsageID:      toUUID(add.ID),
			InputTokens:  add.InputTokens,
			OutputTokens: add.OutputTokens,
			CostNanos:    int64(add.Cost),
		})
		lost = lost || errors.Is(conn.Translate(ctx, err, conn.Committing), repo.ErrUnknownOutcome)
		return err
	})
	switch {
	case errors.Is(err, repo.ErrUnknownOutcome):
		return repo.Usage{}, err
	case conn.IsNoRows(err):
		return repo.Usage{}, refusedUsage(lost, s.exec.noted(sessionNotFound(id)))
	case conn.HasCode(err, conn.OutOfRange):
		return repo.Usage{}, rules.TooMuchUsage()
	case err != nil:
		return repo.Usage{}, err
	}
	totals := usageOf(row.InputTokens, row.OutputTokens, row.CostNanos)
	switch {
	case row.Added:
		return rules.AddUsage(totals, add)
	case row.KnownCostNanos != nil:
		known := usageOf(*row.KnownInputTokens, *row.KnownOutputTokens, *row.KnownCostNanos)
		if err := rules.UsageConflict(add, id, known); err != nil {
			return repo.Usage{}, err
		}
		return totals, nil
	case given || lost:
		if totals, found, err := s.knownUsage(ctx, id, add); found || err != nil {
			return totals, err
		}
	}
	if row.BudgetNanos == nil { // the id was stored meanwhile, and the session deleted
		return repo.Usage{}, refusedUsage(lost, s.exec.noted(sessionNotFound(id)))
	}
	return repo.Usage{}, refusedUsage(lost, &repo.LimitExceededError{
		Kind: "budget", ID: id, Limit: *row.BudgetNanos, Current: int64(totals.Cost), Requested: int64(add.Cost),
	})
}

// refusedUsage returns the error when nothing was added. The outcome is unknown if an
// earlier attempt may still arrive, and succeed.
func refusedUsage(lost bool, reason error) error {
	if lost {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	}
	return reason
}

// knownUsage looks for a stored usage with add's id, and compares it with add.
func (s *sessions) knownUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (totals repo.Usage, found bool, err error) {
	row, err := run(ctx, s.exec.read, queries.SessionUsageGet, db.SessionUsageGetParams{ID: toUUID(id), UsageID: toUUID(add.ID)})
	if conn.IsNoRows(err) {
		return repo.Usage{}, false, nil
	}
	if err != nil {
		return repo.Usage{}, false, s.exec.unread(err)
	}
	known := usageOf(row.KnownInputTokens, row.KnownOutputTokens, row.KnownCostNanos)
	if conflict := rules.UsageConflict(add, id, known); conflict != nil {
		return repo.Usage{}, true, conflict
	}
	return usageOf(row.InputTokens, row.OutputTokens, row.CostNanos), true, nil
}
