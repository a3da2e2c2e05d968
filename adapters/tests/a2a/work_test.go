package a2atest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"
	"github.com/google/go-cmp/cmp"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func execute(id a2a.TaskID, text string) *workqueue.Payload {
	return &workqueue.Payload{
		Type: workqueue.PayloadTypeExecute, TaskID: id, CallContext: map[string]any{"a": "b"},
		ExecuteRequest: &a2a.SendMessageRequest{Message: &a2a.Message{ID: text, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}},
	}
}

func cancellation(id a2a.TaskID) *workqueue.Payload {
	return &workqueue.Payload{Type: workqueue.PayloadTypeCancel, TaskID: id, CancelRequest: &a2a.CancelTaskRequest{ID: id}}
}

// A task is executed once at a time, and not while it is being cancelled.
func testLeases(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx := t.Context()
	kinds := map[string]func(a2a.TaskID) *workqueue.Payload{
		"execute": func(id a2a.TaskID) *workqueue.Payload { return execute(id, "hello") }, "cancel": cancellation,
	}
	for held, first := range kinds {
		for asked, second := range kinds {
			id := a2a.NewTaskID()
			lease, err := c.Leases.Acquire(ctx, first(id))
			must(t, err)
			if lease.TaskID() != id {
				t.Errorf("the lease is for %s", lease.TaskID())
			}
			must(t, lease.(workqueue.Heartbeater).Heartbeat(ctx))
			other, err := c.Leases.Acquire(ctx, second(id))
			if held == "execute" && asked == "cancel" {
				must(t, err)
				other.Release(ctx)
			} else {
				wantError(t, err, workqueue.ErrLeaseAlreadyTaken)
			}
			lease.Release(ctx)
			if err := lease.(workqueue.Heartbeater).Heartbeat(ctx); err == nil {
				t.Error("a released lease beats")
			}
			lease, err = c.Leases.Acquire(ctx, second(id))
			must(t, err)
			lease.Release(ctx)
		}
	}
}

// write writes work, and returns the task that it is for.
func write(ctx context.Context, t *testing.T, c *a2astore.Cluster, p *workqueue.Payload) a2a.TaskID {
	t.Helper()
	id, err := c.Work.Write(ctx, p)
	must(t, err)
	return id
}

func read(t *testing.T, c *a2astore.Cluster) workqueue.Message {
	t.Helper()
	message, err := c.Work.Read(await.Context(t))
	must(t, err)
	return message
}

func testWork(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx, id := as(t.Context(), user), a2a.NewTaskID()
	if got := write(ctx, t, c, execute(id, "hello")); got != id {
		t.Errorf("the work is for %s, want %s", got, id)
	}
	message := read(t, c)
	if diff := cmp.Diff(message.Payload(), execute(id, "hello")); diff != "" {
		t.Error(diff)
	}
	// The same message again is the same work, whatever task it is sent for. Another one, of a
	// task that is being executed, is refused.
	if got := write(ctx, t, c, execute(a2a.NewTaskID(), "hello")); got != id {
		t.Errorf("the same message is for %s, want %s", got, id)
	}
	_, err := c.Work.Write(ctx, execute(id, "again"))
	wantError(t, err, workqueue.ErrLeaseAlreadyTaken)
	write(ctx, t, c, cancellation(id))
	_, err = c.Work.Write(ctx, cancellation(id))
	wantError(t, err, workqueue.ErrLeaseAlreadyTaken)
	must(t, read(t, c).Complete(ctx))
	// A client that answers before the work has ended is accepted when it has.
	completed := make(chan error, 1)
	time.AfterFunc(30*time.Millisecond, func() { completed <- message.Complete(ctx) }) // pace: later than the answer, or not
	begun := time.Now()
	_, err = c.Work.Write(ctx, execute(id, "again"))
	for ; errors.Is(err, workqueue.ErrLeaseAlreadyTaken); _, err = c.Work.Write(ctx, execute(id, "again")) {
		if took := time.Since(begun); took < time.Second { // short: it may wait for longer
			t.Fatalf("the write has waited for %v", took)
		}
		begun = time.Now() // this machine is slow to complete the work
	}
	must(t, err)
	must(t, <-completed)
	must(t, read(t, c).Complete(ctx))
	// The first message again is still the same work. It has ended, and takes no lease.
	if got := write(ctx, t, c, execute(a2a.NewTaskID(), "hello")); got != id {
		t.Errorf("the same message is for %s after the work, want %s", got, id)
	}
	write(ctx, t, c, execute(id, "and again"))
	must(t, read(t, c).Complete(ctx))
	// Other users, and an unknown one, send messages of their own.
	for _, other := range []context.Context{as(t.Context(), "bob"), as(t.Context(), ""), as(t.Context(), "")} {
		mine := a2a.NewTaskID()
		if got := write(other, t, c, execute(mine, "hello")); got != mine {
			t.Errorf("the work is for %s, want %s", got, mine)
		}
		must(t, read(t, c).Complete(ctx))
	}
	ended := make(chan error)
	go func() {
		_, err := c.Work.Read(context.WithoutCancel(ctx))
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond) // pace: it waits by now, or finds the queue closed
	c.Close()
	wantError(t, <-ended, workqueue.ErrQueueClosed)
}

// Work whose process died is begun again: with the task that it has made, and not if that has
// ended. After the last attempt the task is failed, whether it was made or not.
func testWorkAgain(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, broken := as(t.Context(), user), errors.New("broken")
	state := func(id a2a.TaskID) a2a.TaskState {
		t.Helper()
		stored, err := c.Tasks.Get(ctx, id)
		must(t, err)
		return stored.Task.Status.State
	}
	made := newTask(a2a.TaskStateWorking)
	write(ctx, t, c, execute(made.ID, "made"))
	first := read(t, c)
	_, err := c.Tasks.Create(ctx, made)
	must(t, err)
	// Another process takes the work: the first one is stopped, and does not end it.
	processed := repo.PlanFilter{Namespace: "work-again", State: repo.PlanProcessing}
	plans, err := store.Plans().List(ctx, processed, repo.Page{})
	must(t, err)
	page, err := store.Leases().List(ctx, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: plans.Items[0].ID.String()}, repo.Page{})
	must(t, err)
	must(t, store.Leases().Release(ctx, page.Items[0]))
	second := read(t, c)
	if got := second.Payload().ExecuteRequest.Message.TaskID; got != made.ID {
		t.Errorf("the message is for task %q", got)
	}
	await.For(t, "the first process to notice it", func() bool {
		return errors.Is(first.(workqueue.Heartbeater).Heartbeat(ctx), repo.ErrConflict)
	})
	must(t, second.(workqueue.Heartbeater).Heartbeat(ctx))
	wantError(t, first.Complete(ctx), repo.ErrConflict)
	must(t, second.Return(ctx, broken)) // the last attempt

	unmade, next := a2a.NewTaskID(), a2a.NewTaskID()
	write(ctx, t, c, execute(unmade, "unmade"))
	write(ctx, t, c, execute(next, "next"))
	for message := read(t, c); ; message = read(t, c) {
		if message.Payload().TaskID == next {
			must(t, message.Complete(ctx))
			break
		}
		must(t, message.Return(ctx, broken))
	}
	if state(made.ID) != a2a.TaskStateFailed || state(unmade) != a2a.TaskStateFailed {
		t.Errorf("the tasks are %s and %s", state(made.ID), state(unmade))
	}
	ended := newTask(a2a.TaskStateCompleted)
	write(ctx, t, c, execute(ended.ID, "ended"))
	message := read(t, c)
	_, err = c.Tasks.Create(ctx, ended)
	must(t, err)
	must(t, message.Return(ctx, broken))
	write(ctx, t, c, execute(a2a.NewTaskID(), "after it"))
	last := read(t, c)
	if last.Payload().TaskID == ended.ID {
		t.Error("the task of work that was begun again has ended")
	}
	plans, err = store.Plans().List(ctx, processed, repo.Page{})
	must(t, err)
	if len(plans.Items) != 1 { // the last one
		t.Errorf("%d plans are still processed", len(plans.Items))
	}
	must(t, last.Complete(ctx))
}

// withoutRelease is the store of a process that dies before it releases a lease.
type withoutRelease struct{ repo.Store }

func (s withoutRelease) Leases() repo.Leases { return unreleased{s.Store.Leases()} }

type unreleased struct{ repo.Leases }

func (unreleased) Release(context.Context, repo.Lease) error { return repo.ErrUnavailable }

// When work has ended, the task takes other work, even if the process dies right then: the
// ended work is never claimed again, and its lease was taken for an hour.
func testDying(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, task := as(t.Context(), user), a2a.NewTaskID()
	dying, err := a2astore.New(ctx, withoutRelease{store}, a2astore.Options{Name: "dying"})
	must(t, err)
	t.Cleanup(dying.Close)
	_, err = dying.Work.Write(ctx, execute(task, "first"))
	must(t, err)
	m, err := dying.Work.Read(ctx)
	must(t, err)
	_ = m.Complete(ctx)
	_, err = c.Work.Write(ctx, execute(task, "second"))
	must(t, err)
}
