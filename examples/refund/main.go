// Command refund is an agent's tool that pays: it asks a person first, stays within a budget, and pays once, although its
// worker may be killed at any moment, and the payment provider fails on purpose.
//
//	go run ./examples/refund provider 127.0.0.1:8081 &
//	export DATABASE_URL=postgres://… PROVIDER=http://127.0.0.1:8081
//	go run ./examples/refund work &
//	go run ./examples/refund ask 2500      # cents
//	go run ./examples/refund approve bob
//	go run ./examples/refund show
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

// customer has the key of the session in which refunds are asked for.
const customer = "customer-7"

// daily is what may be refunded in a day: 100 of the currency.
var daily = budget.Limit{Name: "refunds", Unit: budget.Money, Period: budget.Day, Max: int64(cents(10_000))}

func cents(n int64) repo.Cost { return repo.Cost(n * 10_000_000) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, append(os.Args[1:], "", "")); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, arguments []string) error {
	if arguments[0] == "provider" {
		return provide(ctx, arguments[1])
	}
	s, err := newService(ctx, os.Getenv("DATABASE_URL"), os.Getenv("PROVIDER"))
	if err != nil {
		return err
	}
	defer func() { _ = s.store.Close() }()
	switch arguments[0] {
	case "work":
		return repo.Work(ctx, s.store, repo.Claim{Owner: "refund/" + repo.NewID().String(), Limit: 4}, s.refund)
	case "ask":
		return s.ask(ctx, arguments[1])
	case "approve":
		return s.approve(ctx, arguments[1])
	case "show":
		return s.show(ctx)
	}
	return errors.New("say one of provider, work, ask, approve and show")
}

type service struct {
	store     *agentstore.Store
	approvals *approval.Approvals
	budget    *budget.Keeper
	provider  string
}

func newService(ctx context.Context, url, provider string) (*service, error) {
	store, err := agentstore.Open(ctx, url, agentstore.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	s := &service{store: store, provider: provider}
	if s.approvals, err = approval.New(store, "", approval.Options{}); err != nil {
		return nil, err
	}
	if s.budget, err = budget.New(store, budget.Options{}); err != nil {
		return nil, err
	}
	_, err = store.Actions().Create(ctx, repo.NewAction{Name: "refund", ActionDefinition: repo.ActionDefinition{
		Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}, MaxAttempts: 100,
		Arguments: []repo.Argument{
			{Name: "amount", Type: repo.ArgumentInteger, Required: true}, {Name: "call", Type: repo.ArgumentString, Required: true},
		},
	}})
	return s, err
}

// ask is the step in which the model calls the tool: its message and the plan that does it are stored together.
func (s *service) ask(ctx context.Context, amount string) error {
	call := repo.NewID().String()
	quoted, err := json.Marshal(call)
	if err != nil {
		return err
	}
	_, err = s.store.Sessions().AppendTurn(ctx, repo.Turn{
		ID: call, Create: &repo.NewSession{Key: customer, Existing: repo.ExistingAny}, Action: "refund",
		Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Kind: "tool_call", CallID: call, Content: "refund " + amount}},
		Use: repo.UseAction{Arguments: []repo.ArgumentValue{
			{Name: "amount", Value: json.RawMessage(amount)}, {Name: "call", Value: quoted},
		}},
	})
	return err
}

// approve approves all that waits for somebody.
func (s *service) approve(ctx context.Context, who string) error {
	list, err := s.approvals.List(ctx, who, repo.Page{})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	var answers []approval.Answer
	for _, request := range list.Items {
		fmt.Println(request.Text)
		answers = append(answers, approval.Answer{Ref: request.Ref, Verdict: approval.Approve})
	}
	_, err = s.approvals.Decide(ctx, who, answers...)
	return err
}

func (s *service) show(ctx context.Context) error {
	id, err := s.store.Sessions().Find(ctx, repo.SessionKey{Key: customer})
	if err != nil {
		return err
	}
	for m, err := range s.store.Sessions().Messages(ctx, id, 0) {
		if err != nil {
			return err
		}
		fmt.Println(m.Role, m.Content)
	}
	used, err := s.budget.Used(ctx, daily)
	fmt.Println("refunded today:", repo.Cost(used))
	return err
}
