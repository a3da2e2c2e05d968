package budget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://budget-example", agentstore.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	keeper, err := budget.New(store, budget.Options{})
	if err != nil {
		panic(err)
	}
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		panic(err)
	}
	prices := budget.Prices{Price: func(model string, input, output int64) (repo.Cost, bool) {
		return repo.Cost(input*3_000 + output*15_000), model == "small" // of a billionth, by token
	}}
	limits := []budget.Limit{
		{Name: repo.JoinKey("tenant", "acme"), Unit: budget.Money, Period: budget.Month, Zone: "Europe/Berlin", Max: int64(50 * repo.CostUnit)},
		{Name: repo.JoinKey("user", "4711"), Unit: budget.Tokens, Period: budget.Day, Max: 10_000},
	}

	for i, output := range []int64{350, 900, 2} {
		// At most 3,000 tokens go in, and 1,000 come out.
		most, err := prices.Amount("small", 3000, 1000)
		if err != nil {
			panic(err)
		}
		question := repo.Turn{
			SessionID: session.ID, ID: fmt.Sprint("question ", i), Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "hello"}},
		}
		_, reservation, err := keeper.ReserveTurn(ctx, question, budget.Request{ID: fmt.Sprint("call ", i), Limits: limits, Most: most})
		if exceeded, is := errors.AsType[*budget.ExceededError](err); is {
			fmt.Printf("%v: %d + %d of %d\n", exceeded, exceeded.Err.Current, exceeded.Err.Requested, exceeded.Limit.Max)
			continue
		} else if err != nil {
			panic(err)
		}
		// The model is called here.
		used, err := prices.Amount("small", 2800, output)
		if err != nil {
			panic(err)
		}
		answer := repo.Turn{
			SessionID: session.ID, ID: fmt.Sprint("answer ", i), Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "hi"}},
			Usage: &repo.NewUsage{InputTokens: 2800, OutputTokens: output, Cost: used.Cost},
		}
		if _, _, err := keeper.SettleTurn(ctx, answer, reservation, budget.Use{Amount: used}); err != nil {
			panic(err)
		}
		spent, err := keeper.Used(ctx, limits[0])
		if err != nil {
			panic(err)
		}
		fmt.Println("acme has spent", repo.Cost(spent))
	}
	// Output:
	// acme has spent 0.01365
	// acme has spent 0.03555
	// the limit of tokens (day) of "user/4711" would be passed: 6850 + 4000 of 10000
}
