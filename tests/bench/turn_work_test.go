package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A turn with a plan and a stream, beside an append and a transaction of the three calls.
func BenchmarkTurnWork(b *testing.B) {
	ways := map[string]func(ctx context.Context, store repo.Store, id repo.ID, key string) error{
		"append": func(ctx context.Context, store repo.Store, id repo.ID, _ string) error {
			_, err := store.Sessions().Append(ctx, id, message())
			return err
		},
		"plan": func(ctx context.Context, store repo.Store, id repo.ID, key string) error {
			_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
				SessionID: id, ID: key, Messages: []repo.NewMessage{message()}, Action: "answer",
			})
			return err
		},
		"turn": func(ctx context.Context, store repo.Store, id repo.ID, key string) error {
			_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
				SessionID: id, ID: key, Messages: []repo.NewMessage{message()}, Action: "answer", Open: &repo.NewStream{Key: key, Owner: "o"},
			})
			return err
		},
		"transaction": func(ctx context.Context, store repo.Store, id repo.ID, key string) error {
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				if _, err := tx.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, ID: key, Messages: []repo.NewMessage{message()}}); err != nil {
					return err
				}
				if _, err := tx.Plans().Use(ctx, "answer", repo.UseAction{SessionID: id}); err != nil {
					return err
				}
				_, err := tx.Streams().Open(ctx, repo.NewStream{Key: key, Owner: "o", Session: id})
				return err
			})
		},
	}
	for _, writers := range []int{1, 16, 64} {
		for _, way := range []string{"append", "plan", "turn", "transaction"} {
			b.Run(fmt.Sprintf("writers=%d/%s", writers, way), func(b *testing.B) {
				store := pgtest.NewStore(b, agentstore.Options{})
				definition := repo.ActionDefinition{Reusable: true}
				if _, err := store.Actions().Create(b.Context(), repo.NewAction{Name: "answer", ActionDefinition: definition}); err != nil {
					b.Fatal(err)
				}
				ids := newSessions(b, store, 100)
				together(b, writers, func(i int) error { return ways[way](b.Context(), store, ids[i%len(ids)], fmt.Sprint("turn ", i)) })
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
			})
		}
	}
}
