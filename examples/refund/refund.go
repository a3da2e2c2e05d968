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
)

// tool is a call of the tool, which a plan does.
type tool struct {
	call   string
	amount int64 // cents
	ref    approval.Ref
	act    approval.Act
}

func toolOf(plan repo.Plan) (t tool, err error) {
	for _, argument := range plan.Arguments {
		switch argument.Name {
		case "amount":
			err = errors.Join(err, json.Unmarshal(argument.Value, &t.amount))
			t.act = approval.Act{Kind: "refund", Subject: customer, Arguments: argument.Value}
		case "call":
			err = errors.Join(err, json.Unmarshal(argument.Value, &t.call))
		}
	}
	t.ref = approval.Ref{SessionID: plan.SessionID, ID: t.call}
	return t, err
}

// refund does a plan. It may be called any number of times for it, after whatever has become of the calls before.
func (s *service) refund(ctx context.Context, claimed repo.ClaimedPlan) error {
	t, err := toolOf(claimed.Plan)
	if err != nil {
		return repo.Final(err)
	}
	var request approval.Request
	if err := s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		request, err = s.approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: t.ref, Act: t.act, Text: fmt.Sprintf("Refund %s to %s?", cents(t.amount), customer),
			By: "agent", Deciders: []string{"bob"}, Until: time.Now().Add(24 * time.Hour),
			PlanID: claimed.Plan.ID, Fence: claimed.Lease.Fence,
		})
		return err
	}); err != nil || request.Status == approval.Open {
		return err // the plan waits
	}
	_, err = s.once(ctx, t)
	var known *effect.Error
	switch {
	case err == nil:
		return s.settle(ctx, t, true)
	case errors.As(err, &known) && known.Effect.State == effect.StateReserved:
		return repo.Snooze(known.Left)
	case errors.As(err, &known) && known.Effect.State == effect.StateUnknown: // it is sent again, with the same key
		return repo.Snooze(time.Second)
	case errors.As(err, &known) && known.Effect.State == effect.StateFailed:
		return errors.Join(s.settle(ctx, t, false), s.refused(ctx, t, err))
	case errors.Is(err, repo.ErrLimit), errors.As(err, new(*approval.StatusError)): // nothing was sent
		return s.refused(ctx, t, err)
	}
	return err
}

// once pays. The approval is used up, and the budget reserved, in the commit that reserves the effect.
func (s *service) once(ctx context.Context, t tool) (effect.Outcome, error) {
	_, changes, err := s.budget.Propose(ctx, budget.Request{
		ID: t.call, Limits: []budget.Limit{daily}, Most: budget.Amount{Cost: cents(t.amount)}, Life: 24 * time.Hour,
	})
	if err != nil {
		return effect.Outcome{}, err
	}
	policy := effect.Policy{
		Timeout: 5 * time.Second, HonoursKey: 24 * time.Hour,
		Permit: func(ctx context.Context, tx repo.Repositories) error {
			if err := s.approvals.Use(ctx, tx, t.ref, t.act); err != nil {
				return err
			}
			_, err := tx.State().Change(ctx, changes)
			return err
		},
		Turn: func(receipt json.RawMessage) repo.Turn { return t.says("refunded " + string(receipt)) },
	}
	key := effect.Key{Session: t.ref.SessionID, Call: t.call}
	return effect.Once(ctx, s.store, key, t.act.Arguments, policy, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
		return pay(ctx, s.provider, e.IdempotencyKey, t.amount)
	})
}

// settle ends the budget's reservation, which another process may have made, and may have settled.
func (s *service) settle(ctx context.Context, t tool, paid bool) error {
	held, err := s.budget.Find(ctx, daily.Name, t.call)
	switch {
	case errors.Is(err, repo.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !paid:
		return s.budget.Release(ctx, held)
	}
	_, err = s.budget.Settle(ctx, held, budget.Use{Amount: held.Most, Over: true})
	return err
}

// says is the turn with the tool's answer: the same one whenever it is added.
func (t tool) says(text string) repo.Turn {
	return repo.Turn{
		SessionID: t.ref.SessionID, ID: t.call + "/answer",
		Messages: []repo.NewMessage{{Role: repo.RoleTool, CallID: t.call, Content: text}},
	}
}

// refused tells the model that nothing was paid, and ends the plan.
func (s *service) refused(ctx context.Context, t tool, why error) error {
	if _, err := s.store.Sessions().AppendTurn(ctx, t.says("not refunded")); err != nil {
		return err
	}
	return repo.Final(why)
}
