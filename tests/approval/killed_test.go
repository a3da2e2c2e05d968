package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// runEnv passes a run to the process that is killed.
const runEnv = "AGENTSTORE_TEST_APPROVAL"

// run is a plan that pays after an approval, and does not after a denial. The next worker goes on where the one before
// was killed.
type run struct {
	DatabaseURL   string
	Session, Plan repo.ID
	Action        string
	Deny, Naive   bool
	KillAt        int
	InCommit      bool
}

var pay = approval.Act{Kind: "pay", Arguments: []byte(`{"amount":100}`)}

// do goes on until the plan has ended.
func (r run) do(ctx context.Context, store repo.Store) error {
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		return err
	}
	ref := approval.Ref{SessionID: r.Session, ID: "pay"}
	for {
		claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: r.Plan.String(), Actions: []string{r.Action}})
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			plan, err := store.Plans().Get(ctx, r.Plan)
			if err != nil || plan.State == repo.PlanApplied {
				return err
			}
			verdict := map[bool]approval.Verdict{true: approval.Deny, false: approval.Approve}[r.Deny]
			if _, err := approvals.Decide(ctx, "bob", approval.Answer{Ref: ref, Verdict: verdict}); err != nil {
				return err
			}
			continue
		}
		if err := r.work(ctx, store, approvals, ref, claimed[0].Lease.Fence); err != nil {
			return err
		}
	}
}

// work asks, or does what was approved.
func (r run) work(ctx context.Context, store repo.Store, approvals *approval.Approvals, ref approval.Ref, fence int64) error {
	var asked approval.Request
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
		asked, err = approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: ref, Act: pay, By: "anna", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour), PlanID: r.Plan, Fence: fence,
		})
		return err
	})
	if err != nil || asked.Status == approval.Open {
		return err
	}
	paid := repo.NewMessage{Role: repo.RoleTool, Content: "paid"}
	if r.Naive && asked.Status == approval.Approved { // it checks, pays, and then writes down that it has
		if _, err := store.Sessions().Append(ctx, r.Session, paid); err != nil {
			return err
		}
	}
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		err := approvals.Use(ctx, tx, ref, pay)
		if refused, is := errors.AsType[*approval.StatusError](err); is && refused.Status == approval.Denied {
			err = nil
		} else if err == nil && !r.Naive {
			_, err = tx.Sessions().Append(ctx, r.Session, paid)
		}
		if err == nil {
			_, err = tx.Plans().Transition(ctx, r.Plan, repo.TransitionComplete, repo.Cause{Fence: fence})
		}
		return err
	})
}

func runMain() int {
	var r run
	s := &steps{}
	err := json.Unmarshal([]byte(os.Getenv(runEnv)), &r)
	var store *agentstore.Store
	if err == nil {
		store, err = agentstore.Open(context.Background(), r.DatabaseURL, agentstore.Options{})
	}
	if err == nil {
		s.at, s.inCommit = r.KillAt, r.InCommit
		err = r.do(context.Background(), newStepped(store, s))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		return 1
	}
	fmt.Println(s.done)
	return 0
}

// process does a run in another process. killed is whether it was, and steps how many it had otherwise.
func (r run) process(t *testing.T) (steps int, killed bool) {
	t.Helper()
	command := pgtest.Again(t.Context(), runEnv, r)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if ended, is := errors.AsType[*exec.ExitError](err); is {
		if status, is := ended.Sys().(syscall.WaitStatus); is && status.Signal() == syscall.SIGKILL {
			return 0, true
		}
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if _, err := fmt.Sscan(string(out), &steps); err != nil {
		t.Fatal(err)
	}
	return steps, false
}

// lab makes runs on one database.
type lab struct {
	*testing.T

	url   string
	store *agentstore.Store
	n     int
}

func newLab(t *testing.T) *lab {
	url := pgtest.NewDatabase(t)
	return &lab{t, url, pgtest.OpenStore(t, url, agentstore.Options{}), 0}
}

func (l *lab) run(deny, naive bool) run {
	l.Helper()
	l.n++
	action := fmt.Sprintf("local/pay-%d", l.n)
	_, err := l.store.Actions().Create(l.Context(), repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{
		Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}, MaxAttempts: 100,
	}})
	if err != nil {
		l.Fatal(err)
	}
	session := pgtest.NewSession(l, l.store)
	plan, err := l.store.Plans().Use(l.Context(), action, repo.UseAction{SessionID: session})
	if err != nil {
		l.Fatal(err)
	}
	return run{DatabaseURL: l.url, Session: session, Plan: plan.ID, Action: action, Deny: deny, Naive: naive}
}

// done counts the payments of a run, and its decisions and uses by the audit trail.
func (l *lab) done(r run) (paid int64, decided, used int) {
	l.Helper()
	session, err := l.store.Sessions().Get(l.Context(), r.Session)
	if err != nil {
		l.Fatal(err)
	}
	entries, err := l.store.Audit().List(l.Context(), repo.AuditFilter{SessionID: r.Session, Type: "user_approval"}, repo.Page{})
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range entries.Items {
		if strings.Contains(string(e.Details), `"used"`) {
			used++
		} else {
			decided++
		}
	}
	return session.MessageCount, decided, used
}

// finish goes on with a run whose process was killed, as soon as its lease has ended.
func (l *lab) finish(r run) {
	l.Helper()
	_, err := l.store.Leases().ReleaseAll(l.Context(), r.Plan.String())
	if err == nil {
		err = r.do(l.Context(), l.store)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// Guarantee: Approvals: Nothing is done without a decision, or twice, whenever a process is killed.
func TestKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	most, _ := l.run(false, false).process(t)
	if most < 40 {
		t.Fatalf("a run has %d steps", most)
	}
	kills := 0
	for i := range pgtest.Choose(1000, 30) {
		r := l.run(i%5 == 4, false)
		r.KillAt, r.InCommit = i*7%most+1, i%2 == 1
		if _, killed := r.process(t); killed {
			kills++
		}
		paid, decided, used := l.done(r)
		if paid > 0 && decided == 0 || paid != int64(used) {
			t.Errorf("killed at step %d: %d payments, %d decisions, %d uses", r.KillAt, paid, decided, used)
		}
		l.finish(r)
		want := 1
		if r.Deny {
			want = 0
		}
		if paid, decided, used := l.done(r); paid != int64(want) || used != want || decided != 1 {
			t.Errorf("killed at step %d: %d payments, %d decisions, %d uses at the end", r.KillAt, paid, decided, used)
		}
	}
	t.Logf("%d runs of %d steps, %d killed", l.n-1, most, kills)
	if kills < l.n/2 {
		t.Errorf("%d of %d runs were killed", kills, l.n-1)
	}
}

// A worker that checks, pays, and then writes down that it was paid, pays twice.
func TestKilledNaive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	most, _ := l.run(false, true).process(t)
	twice := 0
	for at := most; at > 0 && twice == 0; at-- {
		r := l.run(false, true)
		r.KillAt = at
		r.process(t)
		l.finish(r)
		if paid, _, _ := l.done(r); paid > 1 {
			twice++
		}
	}
	if twice == 0 {
		t.Error("the naive way, which was to pay twice, has not")
	}
}
