package approval_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

// pay is the work of a plan: it asks, and when it is called again, after the decision, pays.
func pay(ctx context.Context, store repo.Store, approvals *approval.Approvals, claimed repo.ClaimedPlan) error {
	plan := claimed.Plan
	ref := approval.Ref{SessionID: plan.SessionID, ID: "pay/" + plan.ID.String()}
	act := approval.Act{Kind: "pay", Subject: "invoice 7", Arguments: plan.Arguments[0].Value}
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		request, err := approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: ref, Act: act, Text: "Pay invoice 7 with " + string(act.Arguments) + "?",
			By: "agent", Deciders: []string{"bob", "carl"}, Until: time.Now().Add(24 * time.Hour),
			PlanID: plan.ID, Fence: claimed.Lease.Fence,
		})
		if err != nil || request.Status == approval.Open {
			return err // the plan waits, and this function returns
		}
		if err := approvals.Use(ctx, tx, ref, act); err != nil {
			return err
		}
		paid := repo.NewMessage{Role: repo.RoleTool, CallID: ref.ID, Content: "paid"}
		_, err = tx.Sessions().Append(ctx, plan.SessionID, paid)
		return err
	})
	if _, refused := errors.AsType[*approval.StatusError](err); refused {
		return repo.Final(err) // denied, withdrawn, or expired
	}
	return err
}

// decide is for the service's own page.
func decide(ctx context.Context, approvals *approval.Approvals, user string) error {
	list, err := approvals.List(ctx, user, repo.Page{})
	if err != nil {
		return err
	}
	var answers []approval.Answer
	for _, request := range list.Items {
		fmt.Println(request.Text)
		answers = append(answers, approval.Answer{Ref: request.Ref, Verdict: approval.Approve, Reason: "as agreed", Sum: request.Sum()})
	}
	_, err = approvals.Decide(ctx, user, answers...)
	if late, is := errors.AsType[*approval.StatusError](err); is {
		fmt.Println("decided already:", late.Status, late.By)
	}
	return err
}

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store := must(agentstore.Open(ctx, "memory://approvals", agentstore.Options{}))
	defer func() { _ = store.Close() }()
	must(store.Actions().Create(ctx, repo.NewAction{Name: "pay", ActionDefinition: repo.ActionDefinition{
		Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}, Arguments: []repo.Argument{{Name: "amount", Type: repo.ArgumentInteger}},
	}}))
	session := must(store.Sessions().Create(ctx, repo.NewSession{}))
	plan := must(store.Plans().Use(ctx, "pay", repo.UseAction{
		SessionID: session.ID, Arguments: []repo.ArgumentValue{{Name: "amount", Value: []byte("100")}},
	}))

	approvals := must(approval.New(store, "", approval.Options{}))
	work := func(ctx context.Context, claimed repo.ClaimedPlan) error {
		err := pay(ctx, store, approvals, claimed)
		if now := must(store.Plans().Get(context.WithoutCancel(ctx), plan.ID)); now.State == repo.PlanQueued {
			go func() { // in another process, later
				if err := decide(context.Background(), approvals, "bob"); err != nil {
					log.Print(err)
				}
			}()
			return err
		}
		stop()
		return err
	}
	_ = repo.Work(ctx, store, repo.Claim{Owner: "worker"}, work)
	for _, message := range must(store.Sessions().LastMessages(context.Background(), session.ID, 1)) {
		fmt.Println(message.Content)
	}
	// Output:
	// Pay invoice 7 with 100?
	// paid
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
