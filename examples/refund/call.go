package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

// call is a call of the tool, as the model has made it.
type call struct {
	ref       approval.Ref // the session, and the id of the call
	act       approval.Act // what people approve: the arguments, byte by byte
	arguments              // the same, decoded
}

type arguments struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// callOf returns the call that a plan was made for.
func (s *service) callOf(ctx context.Context, plan repo.Plan) (c call, err error) {
	messages, err := s.store.Sessions().MessagesOfCall(ctx, plan.SessionID, plan.Name)
	if err != nil {
		return c, err
	}
	if len(messages) == 0 || json.Unmarshal(messages[0].Payload, &c.arguments) != nil {
		return c, repo.Final(&repo.InvalidError{Field: "arguments", Reason: "are none of this tool"})
	}
	c.ref = approval.Ref{SessionID: plan.SessionID, ID: plan.Name}
	c.act = approval.Act{Kind: tool, Subject: c.Order, Arguments: messages[0].Payload}
	return c, nil
}

// turn is the step of the model that calls the tool: its message, and the plan that does it, in one commit.
func (a arguments) turn(id string) (repo.Turn, error) {
	payload, err := json.Marshal(a)
	if a.Order == "" || a.Cents <= 0 || a.Cents > 1_000_000 {
		err = &repo.InvalidError{Field: "arguments", Reason: "need an order, and from 1 to 1,000,000 cents"}
	}
	return repo.Turn{
		ID: id, Create: &repo.NewSession{Key: customer, Existing: repo.ExistingAny}, Action: tool, Use: repo.UseAction{Name: id},
		Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Kind: "tool_call", CallID: id, Payload: payload}},
	}, err
}

// result is the turn with the tool's result. Of several of one call the first is stored.
func (c call) result(text string) repo.Turn {
	return repo.Turn{
		SessionID: c.ref.SessionID, ID: c.ref.ID + "/result", Existing: true,
		Messages: []repo.NewMessage{{Role: repo.RoleTool, Kind: "tool_result", CallID: c.ref.ID, Content: text}},
	}
}

// reservation names the call in the budget, which all sessions share.
func (c call) reservation() string { return repo.JoinKey(c.ref.SessionID.String(), c.ref.ID) }

// receipt is what the provider says of a refund.
type receipt struct {
	ID    int       `json:"id"`
	Cents int64     `json:"cents"`
	Fee   int64     `json:"fee_cents"`
	Made  time.Time `json:"made"`
}

func (r receipt) cost() repo.Cost { return cents(r.Cents + r.Fee) }

func cents(n int64) repo.Cost { return repo.Cost(n) * repo.CostUnit / 100 }
