package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// holdTask is the task of a process that holds the leases of sessions, and of the plans
// of a namespace, which it claims.
type holdTask struct {
	DatabaseURL, Namespace string
	Sessions               []repo.ID
	Plans                  int
}

const holdTaskVariable = "AGENTSTORE_FAULTS_HOLDER"

// holdsAll is what such a process prints when it holds all of them.
const holdsAll = "holding"

// holderReport is what such a process found after it was stopped for longer than the
// life of its leases.
type holderReport struct {
	// Acted counts the leases whose context had not ended when it was looked at first,
	// Lost those whose context ended as it should.
	Acted, Lost int
	// Renewed counts the old leases that could be renewed, and Accepted the writes under
	// their fences. Naive counts the writes without a fence that were accepted after those.
	Renewed, Accepted, Naive int
}

// A process that holds leases of sessions and plans is stopped until others have taken
// them, and continued. It finds at its first look that it has lost them, and can do nothing
// with the old fences: also if it writes without a look. What it writes without a fence is
// accepted.
// Guarantee: Leases: A process that was stopped writes nothing with an old fence.
func TestStoppedHolder(t *testing.T) {
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	makeAction(t, store, "work", 5)
	for round := range pgtest.Choose(25, 1) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			for process := range pgtest.Choose(8, 1) {
				task := holdTask{databaseURL, fmt.Sprintf("round %d/%d", round, process), make([]repo.ID, pgtest.Choose(1, 4)), pgtest.Choose(1, 4)}
				t.Run(fmt.Sprint("process ", process), func(t *testing.T) {
					t.Parallel()
					for attempt := 1; !task.stop(t, store); attempt++ {
						task.Namespace += " again"
						t.Logf("attempt %d: it was late, and has lost a claim before it held all", attempt)
					}
				})
			}
		})
	}
}

// stop starts such a process, and stops it. It returns false if the process was too slow to hold what it had claimed.
func (task holdTask) stop(t *testing.T, store *agentstore.Store) (held bool) {
	t.Helper()
	for n := range task.Sessions {
		task.Sessions[n] = pgtest.NewSession(t, store)
	}
	for range task.Plans {
		if _, err := store.Plans().Use(t.Context(), "work", repo.UseAction{Namespace: task.Namespace}); err != nil {
			t.Fatal(err)
		}
	}
	leases := len(task.Sessions) + task.Plans
	successor := "successor of " + task.Namespace
	command := pgtest.Again(t.Context(), holdTaskVariable, task)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("the process ended")
	}
	if lines.Text() != holdsAll {
		_ = command.Wait()
		return false
	}
	if err := command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, session := range task.Sessions {
		await.For(t, "the lease of the stopped process is free", func() bool {
			_, err = store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.SessionLease(session), Owner: successor, TTL: time.Hour})
			return !errors.Is(err, repo.ErrConflict)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var claimed []repo.ClaimedPlan
	await.For(t, "the claims of the stopped process have expired", func() bool {
		more, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: successor, Namespaces: []string{task.Namespace}, Limit: task.Plans, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, more...)
		return len(claimed) == task.Plans
	})
	if err := input.Close(); err != nil { // tells it that the stop was ours
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var report holderReport
	if !lines.Scan() {
		t.Fatal("the process ended")
	}
	if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	if report != (holderReport{Lost: leases, Naive: leases}) {
		t.Errorf("%+v, want %d lost", report, leases)
	}
	page, err := store.Leases().List(t.Context(), repo.LeaseFilter{Owner: successor, Held: true}, repo.Page{})
	if err != nil || len(page.Items) != leases {
		t.Errorf("the successor holds %+v, %v", page.Items, err)
	}
	for _, id := range task.Sessions {
		// The write before the stop, and the one without a fence.
		if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount != 2 {
			t.Errorf("%d messages, %v", session.MessageCount, err)
		}
	}
	for _, c := range claimed {
		plan, err := store.Plans().Get(t.Context(), c.Plan.ID)
		if err != nil || plan.Attempt != 2 || plan.Version != c.Plan.Version || plan.Stage != c.Plan.Stage || plan.LastCheckpointID != naiveCheckpoint {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
	}
	return true
}

// writesUnder are the ways to write to a session under a fence.
func writesUnder(ctx context.Context, store repo.Store, session repo.ID, fence int64) []func() error {
	write := func(r repo.Repositories, turn repo.Turn) error {
		turn.Messages, turn.Fence = []repo.NewMessage{{Role: repo.RoleUser, Content: "of the stopped one"}}, fence
		turn.SessionID = session
		_, err := r.Sessions().AppendTurn(ctx, turn)
		return err
	}
	next := int64(1)
	return []func() error{
		func() error { return write(store, repo.Turn{}) },
		func() error { return write(store, repo.Turn{Expected: &next}) },
		func() error {
			return write(store, repo.Turn{State: []repo.StateChange{{Key: "a", Value: []byte(`1`)}}})
		},
		func() error {
			return store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error { return write(tx, repo.Turn{}) })
		},
	}
}

// naiveCheckpoint is what the process reports as progress without a fence.
const naiveCheckpoint = "without a fence"

// movesUnder are the ways to write to a plan under a fence.
func movesUnder(ctx context.Context, store repo.Store, plan repo.ID, fence int64) []func() error {
	move := func(r repo.Repositories, transition repo.Transition) error {
		_, err := r.Plans().Transition(ctx, plan, transition, repo.Cause{Reason: "by the stopped one", Fence: fence})
		return err
	}
	checkpoint := "under a fence"
	if fence == 0 {
		checkpoint = naiveCheckpoint
	}
	return []func() error{
		func() error {
			_, err := store.Plans().Progress(ctx, plan, repo.Progress{CheckpointID: &checkpoint, Fence: fence})
			return err
		},
		func() error { return move(store, repo.TransitionComplete) },
		func() error { return move(store, repo.TransitionCancel) },
		func() error {
			return store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error { return move(tx, repo.TransitionFail) })
		},
	}
}

// runHolder is the main function of a process that holds leases.
func runHolder(ctx context.Context, task holdTask) error {
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	const owner = "holder"
	var held []*repo.HeldLease
	var under []func(fence int64) []func() error // the ways to write to what is held
	hold := func(key repo.LeaseKey, ways func(fence int64) []func() error) error {
		// short: the process is stopped until it is over; if it is over before, the process tries again or has lost it, too
		lease, err := repo.HoldLease(ctx, store, repo.NewLease{Key: key, Owner: owner, TTL: repo.MinLeaseTTL})
		if err != nil {
			return err
		}
		held, under = append(held, lease), append(under, ways)
		return ways(lease.Lease().Fence)[0]()
	}
	for _, id := range task.Sessions {
		if err := hold(repo.SessionLease(id), func(fence int64) []func() error { return writesUnder(ctx, store, id, fence) }); err != nil {
			return err
		}
	}
	begun := time.Now()
	// short: as above
	claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: owner, Namespaces: []string{task.Namespace}, TTL: repo.MinLeaseTTL, Limit: task.Plans})
	if err != nil || len(claimed) != task.Plans {
		return fmt.Errorf("claimed %d plans: %w", len(claimed), err)
	}
	for _, c := range claimed {
		if err := hold(c.Lease.Key, func(fence int64) []func() error { return movesUnder(ctx, store, c.Plan.ID, fence) }); err != nil {
			if late := time.Now().After(begun.Add(repo.MinLeaseTTL / 2)); late { // short: a claim may have expired before it was held
				fmt.Println("late")
				return nil
			}
			return err
		}
	}
	told := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(told)
	}()
	last, continued := time.Now(), false
	fmt.Println(holdsAll)
	// Looks at the clock. A pause between two looks shows that it was stopped, or that the
	// machine is busy: it looks at the leases at once, and again after each pause until it is
	// told that it was stopped.
	report := holderReport{Acted: -1}
	for ; !continued; time.Sleep(time.Millisecond) { // pace: until it looks again
		select {
		case <-told:
			continued = true
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		now := time.Now()
		paused := now.Sub(last) > repo.MinLeaseTTL/5
		if last = now; !paused {
			continue
		}
		report.Acted = 0
		for _, lease := range held {
			if lease.Context().Err() == nil {
				report.Acted++
			}
		}
	}
	for n, lease := range held {
		for _, write := range under[n](lease.Lease().Fence) {
			if _, isFenced := errors.AsType[*repo.FencedError](write()); !isFenced {
				report.Accepted++
			}
		}
		if under[n](0)[0]() == nil {
			report.Naive++
		}
		if _, lost := errors.AsType[*repo.LeaseLostError](context.Cause(lease.Context())); lost {
			report.Lost++
		}
		if _, err := store.Leases().Renew(ctx, lease.Lease(), 0); !errors.Is(err, repo.ErrConflict) {
			report.Renewed++
		}
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}
