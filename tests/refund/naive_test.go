package refund

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/examples/refund/provider"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const naiveVariable = "AGENTSTORE_TEST_REFUND_NAIVE"

// naiveTask is a worker that asks, pays, and stores the result.
type naiveTask struct{ URL, Provider string }

func (task naiveTask) work() error {
	store, err := agentstore.Open(context.Background(), task.URL, agentstore.Options{})
	if err != nil {
		return err
	}
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		return err
	}
	return repo.Work(context.Background(), store, repo.Claim{Owner: "naive " + repo.NewID().String()}, func(ctx context.Context, claimed repo.ClaimedPlan) error {
		plan := claimed.Plan
		var asked approval.Request
		err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			asked, err = approvals.Ask(ctx, tx, approval.NewRequest{
				Ref: approval.Ref{SessionID: plan.SessionID, ID: plan.Name}, Act: approval.Act{Kind: "refund"}, Text: "Refund?",
				By: "agent", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour), PlanID: plan.ID, Fence: claimed.Lease.Fence,
			})
			return err
		})
		if err != nil || asked.Status == approval.Open {
			return err
		}
		if messages, err := store.Sessions().MessagesOfCall(ctx, plan.SessionID, plan.Name); err != nil || len(messages) > 1 {
			return err // it was paid
		}
		order := strings.NewReader(fmt.Sprintf(`{"key":%q,"order":"A-1","cents":2500}`, repo.NewID()))
		response, err := http.Post("http://"+task.Provider+"/refunds", "application/json", order)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		_, err = store.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: plan.SessionID, ID: plan.Name + "/result", Messages: []repo.NewMessage{{Role: repo.RoleTool, Kind: "tool_result", CallID: plan.Name, Content: "refunded"}},
		})
		return err
	})
}

// The naive way pays twice in the same harness, although the provider honours keys.
func TestKilledNaive(t *testing.T) {
	t.Parallel()
	s := newScene(t, &provider.Provider{HonoursKeys: true})
	paid := point{name: "Paid", at: "after"}
	m := paid.hold(s.provider)
	s.run("call", "A-1", "2500")
	work := func() func() {
		command := pgtest.Again(t.Context(), naiveVariable, naiveTask{s.workerURL(), s.address})
		command.Stderr = os.Stderr
		return s.start(command)
	}
	s.kill(paid, m, work, true)
	work()
	s.ended()
	if n := len(s.provider.Refunds()); n != 2 {
		t.Errorf("it has paid %d times, want 2", n)
	}
	if shown := s.run("show"); strings.Count(shown, "tool_result ") != 1 {
		t.Error(shown)
	}
}
