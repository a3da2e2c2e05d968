package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// 64 writers, each in a session of its own, whose calls have one tenant's budget in common, beside the same turns without.
// A call is the turns of a question and of its answer. All ways take turns in one run, of which the medians count.
func BenchmarkBudget(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{})
	keeper, err := budget.New(store, budget.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const writers, rounds, lasts = 64, 7, time.Second
	sessions := newSessions(b, store, writers)
	limits := []budget.Limit{{Name: "tenant", Unit: budget.Money, Period: budget.Month, Max: 1 << 60}}
	for range 3 {
		limits = append(limits, limits[0])
	}
	limits[1].Unit, limits[2].Name, limits[3].Period = budget.Tokens, "user", budget.Day
	turn := func(w int, id string) repo.Turn {
		return repo.Turn{SessionID: sessions[w], ID: id, Messages: []repo.NewMessage{message()}}
	}
	request := func(id string, count int) budget.Request {
		return budget.Request{ID: id, Limits: limits[:count], Most: budget.Amount{Cost: 100, Tokens: 100}}
	}
	use := budget.Use{Amount: budget.Amount{Cost: 60, Tokens: 60}}
	inTurns := func(count int) func(ctx context.Context, w int, id string) error {
		return func(ctx context.Context, w int, id string) error {
			_, r, err := keeper.ReserveTurn(ctx, turn(w, id+"q"), request(id, count))
			if err == nil {
				_, _, err = keeper.SettleTurn(ctx, turn(w, id+"a"), r, use)
			}
			return err
		}
	}
	ways := []struct {
		name string
		call func(ctx context.Context, w int, id string) error
	}{
		{"without", func(ctx context.Context, w int, id string) error {
			_, err := store.Sessions().AppendTurn(ctx, turn(w, id+"q"))
			if err == nil {
				_, err = store.Sessions().AppendTurn(ctx, turn(w, id+"a"))
			}
			return err
		}},
		{"in-turns", inTurns(1)},
		{"four-limits", inTurns(4)},
		{"reserved-apart", func(ctx context.Context, w int, id string) error {
			_, err := store.Sessions().AppendTurn(ctx, turn(w, id+"q"))
			if err != nil {
				return err
			}
			r, err := keeper.Reserve(ctx, request(id, 1))
			if err == nil {
				_, _, err = keeper.SettleTurn(ctx, turn(w, id+"a"), r, use)
			}
			return err
		}},
	}
	rates := map[string][]float64{}
	for round := range rounds {
		for _, way := range ways {
			var calls atomic.Int64
			var all sync.WaitGroup
			begun := time.Now()
			for w := range writers {
				all.Go(func() {
					for n := 0; time.Since(begun) < lasts; n++ {
						if err := way.call(b.Context(), w, fmt.Sprint(way.name, round, "-", n)+fmt.Sprint("w", w)); err != nil {
							b.Error(err)
							return
						}
						calls.Add(1)
					}
				})
			}
			all.Wait()
			rates[way.name] = append(rates[way.name], float64(calls.Load())/time.Since(begun).Seconds())
		}
	}
	for _, way := range ways {
		slices.Sort(rates[way.name])
		b.ReportMetric(rates[way.name][rounds/2], way.name+"-calls/s")
		b.ReportMetric(rates[way.name][rounds/2]/rates["without"][rounds/2], way.name+"-ratio")
	}
}
