package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// refund is the work of a plan: one call of the tool. A worker that takes the plan up again calls it from the start.
func (s *service) refund(ctx context.Context, claimed repo.ClaimedPlan) error {
	c, err := s.callOf(ctx, claimed.Plan)
	if err != nil {
		return err
	}
	asked, err := s.ask(ctx, c, claimed)
	if err != nil || asked.Status == approval.Open {
		return err // the plan waits, and the decision wakes it
	}
	outcome, err := s.pay(ctx, c)
	known, _ := errors.AsType[*effect.Error](err)
	denied, _ := errors.AsType[*approval.StatusError](err)
	switch {
	case err == nil:
		return s.end(ctx, c, "refunded", outcome.Result)
	case denied != nil:
		return s.end(ctx, c, "not refunded: the request is "+string(denied.Status), nil)
	case known != nil && known.Effect.State == effect.StateFailed:
		return s.end(ctx, c, "not refunded: "+known.Effect.Reason, nil)
	case known != nil && known.Effect.State == effect.StateReserved:
		return repo.Snooze(known.Left)
	case known != nil && known.Effect.State == effect.StateUnknown:
		return repo.Snooze(again)
	case errors.Is(err, repo.ErrLimit):
		return s.refuse(ctx, c, "not refunded: the month's budget is used up")
	}
	return err // the plan is tried again
}

// ask asks a person. The same request again is answered with what has become of it.
func (s *service) ask(ctx context.Context, c call, claimed repo.ClaimedPlan) (asked approval.Request, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		asked, err = s.approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: c.ref, Act: c.act, Text: fmt.Sprintf("Refund %v for the order %q?", cents(c.Cents), c.Order),
			By: "agent", Deciders: []string{decider}, Until: time.Now().Add(72 * time.Hour),
			PlanID: claimed.Plan.ID, Fence: claimed.Lease.Fence,
		})
		return err
	})
	return asked, err
}

// pay pays once. One commit uses the approval up, reserves the worst case of the budget, and notes that the payment is about
// to be sent. Then it is sent.
func (s *service) pay(ctx context.Context, c call) (effect.Outcome, error) {
	_, reserve, err := s.budget.Propose(ctx, budget.Request{
		ID: c.reservation(), Limits: []budget.Limit{month}, Most: budget.Amount{Cost: cents(c.Cents + mostFee)}, Life: budget.MaxLife,
	})
	if err != nil {
		return effect.Outcome{}, err
	}
	permit := s.approvals.Permit(c.ref, c.act)
	policy := effect.Policy{
		Timeout: 5 * time.Second, HonoursKey: s.provider.honoursKey, Reconcile: s.provider.find,
		Permit: func(ctx context.Context, tx repo.Repositories) error {
			if err := permit(ctx, tx); err != nil {
				return err
			}
			_, err := tx.State().Change(ctx, reserve)
			return err
		},
	}
	key := effect.Key{Session: c.ref.SessionID, Call: c.ref.ID}
	return effect.Once(ctx, s.store, key, c.act.Arguments, policy, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
		return s.provider.refund(ctx, e.IdempotencyKey, c.Order, c.Cents)
	})
}

// end stores the tool's result, counts the usage, and settles the budget with what was paid, in one commit.
func (s *service) end(ctx context.Context, c call, text string, result json.RawMessage) error {
	turn, paid := c.result(text), receipt{}
	if result != nil {
		if err := json.Unmarshal(result, &paid); err != nil {
			return err
		}
		used := usage.Use{Day: usage.DayOf(paid.Made, time.UTC), Model: "provider", Labels: [2]string{"refund"}, Usage: repo.Usage{Cost: paid.cost()}}
		if err := usage.Count(&turn, used); err != nil {
			return err
		}
	}
	held, err := s.budget.Find(ctx, month.Name, c.reservation())
	if errors.Is(err, repo.ErrNotFound) { // nothing was reserved, or it was settled together with this turn
		_, err = s.store.Sessions().AppendTurn(ctx, turn)
		return err
	}
	if err == nil {
		_, _, err = s.budget.SettleTurn(ctx, turn, held, budget.Use{Amount: budget.Amount{Cost: paid.cost()}, Over: true})
	}
	return err
}

// refuse uses the approval up for the refusal, so that no worker pays, now or next month.
func (s *service) refuse(ctx context.Context, c call, text string) error {
	return s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if err := s.approvals.Use(ctx, tx, c.ref, c.act); err != nil {
			return err
		}
		_, err := tx.Sessions().AppendTurn(ctx, c.result(text))
		return err
	})
}
