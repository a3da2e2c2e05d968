package budget

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A turn with a reservation or a settlement, also under several names, has as many round trips as one with a change of
// state.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	tracer := &pgtest.RoundTrips{}
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	keeper, err := budget.New(store, budget.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session := pgtest.NewSession(t, store)
	turn := func(id string) repo.Turn {
		return repo.Turn{SessionID: session, ID: id, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}}
	}
	limits := []budget.Limit{
		{Name: "tenant", Unit: budget.Money, Period: budget.Month, Max: 100},
		{Name: "tenant", Unit: budget.Tokens, Period: budget.Day, Max: 100},
		{Name: "user", Unit: budget.Tokens, Period: budget.Day, Max: 100},
	}
	count := func(id string, run func(ctx context.Context) error) int {
		t.Helper()
		sent, err := tracer.Of(t.Context(), run)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return len(sent)
	}
	for _, id := range []string{"warm", "counted"} { // the first one reads the clock, and makes the scopes
		plain := count(id, func(ctx context.Context) error {
			changed := turn(id)
			changed.State = []repo.StateChange{{Scope: repo.Scope{Name: "plain"}, Key: "k", Op: repo.StateIncrement, By: 1}}
			_, err := store.Sessions().AppendTurn(ctx, changed)
			return err
		})
		var r budget.Reservation
		reserved := count(id, func(ctx context.Context) (err error) {
			request := budget.Request{ID: id, Limits: limits, Most: budget.Amount{Cost: 2, Tokens: 2}}
			_, r, err = keeper.ReserveTurn(ctx, turn("q "+id), request)
			return err
		})
		settled := count(id, func(ctx context.Context) error {
			_, _, err := keeper.SettleTurn(ctx, turn("a "+id), r, budget.Use{Amount: budget.Amount{Cost: 1, Tokens: 1}})
			return err
		})
		t.Log(id, plain, reserved, settled)
		if id == "counted" && (reserved != plain || settled != plain) {
			t.Errorf("%d round trips with a change of state, %d with a reservation, %d with a settlement", plain, reserved, settled)
		}
	}
}
