package a2atest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

// A task that is deleted while its agent works is not there again, whatever the agent writes, and its work ends with
// this attempt. Work that waits ends without one. The message that is sent again is refused.
func testDeleted(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx := as(t.Context(), user)
	remove := func(id a2a.TaskID) {
		t.Helper()
		_, err := bykey.Of(store.Sessions(), repo.SessionKey{Namespace: "deleted", Key: string(id)}).Delete(ctx)
		must(t, err)
	}
	task, unmade, waiting := newTask(a2a.TaskStateWorking), newTask(a2a.TaskStateWorking), a2a.NewTaskID()
	for _, made := range []*a2a.Task{task, unmade} {
		write(ctx, t, c, execute(made.ID, string(made.ID)))
		m := read(t, c)
		inWork := workqueue.AttachHeartbeater(t.Context(), m.(workqueue.Heartbeater))
		if made == task {
			_, err := c.Tasks.Create(inWork, task)
			must(t, err)
		}
		remove(made.ID)
		_, err := c.Tasks.Create(inWork, made)
		wantError(t, err, a2a.ErrTaskNotFound)
		_, err = c.Tasks.Update(inWork, &taskstore.UpdateRequest{Task: made, Event: made})
		wantError(t, err, a2a.ErrTaskNotFound)
		_, err = c.Push.Save(inWork, made.ID, &a2a.PushConfig{URL: "https://example.org/push"})
		wantError(t, err, a2a.ErrTaskNotFound)
		must(t, m.Return(ctx, errors.New("the task is not there")))
	}
	write(ctx, t, c, execute(waiting, "waits"))
	remove(waiting)
	last := write(ctx, t, c, execute(a2a.NewTaskID(), "another"))
	m := read(t, c)
	if m.Payload().TaskID != last {
		t.Errorf("the work of task %s is there, want that of %s", m.Payload().TaskID, last)
	}
	must(t, m.Complete(ctx))
	for _, id := range []a2a.TaskID{task.ID, unmade.ID, waiting} {
		_, err := c.Tasks.Get(ctx, id)
		wantError(t, err, a2a.ErrTaskNotFound)
	}
	_, err := c.Work.Write(ctx, execute(a2a.NewTaskID(), string(task.ID)))
	wantError(t, err, a2a.ErrTaskNotFound)
	// Its id is free for another one, since no lease is left.
	must(t, func() error { _, err := c.Work.Write(ctx, execute(task.ID, "another message")); return err }())
	must(t, read(t, c).Complete(ctx))
	plans, err := store.Plans().List(ctx, repo.PlanFilter{Namespace: "deleted", State: repo.PlanProcessing}, repo.Page{})
	must(t, err)
	if len(plans.Items) > 0 {
		t.Errorf("%d plans are still processed", len(plans.Items))
	}
}

// Nothing of a person's tasks is left after an erasure: neither what they wrote, nor their name, nor the token of a push.
func testErased(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	const secret = "the secret of jane's"
	ctx := as(t.Context(), "jane")
	for _, id := range []a2a.TaskID{"waits", "works"} {
		write(ctx, t, c, execute(id, secret+string(id)))
		_, err := c.Push.Save(ctx, id, &a2a.PushConfig{URL: "https://example.org/push", Token: secret})
		must(t, err)
	}
	m := read(t, c)
	key := []byte("the key of the test's receipts")
	_, err := erase.Subject(t.Context(), store, erase.Request{Owner: "jane", Namespaces: []string{"erased"}, Key: key})
	must(t, err)
	plans, err := store.Plans().List(ctx, repo.PlanFilter{Namespace: "erased"}, repo.Page{})
	must(t, err)
	wantNothing(t, plans.Items, secret, "jane")
	for _, id := range []string{"waits", "works"} {
		shared, err := store.State().Read(ctx, repo.Scope{Name: repo.JoinKey("a2a push", "erased", id)})
		must(t, err)
		wantNothing(t, shared, secret)
		_, err = store.Sessions().Find(ctx, repo.SessionKey{Namespace: "erased", Key: id})
		wantError(t, err, repo.ErrNotFound)
	}
	must(t, m.Complete(ctx)) // its agent has ended
}

func wantNothing(t *testing.T, of any, words ...string) {
	t.Helper()
	text := fmt.Sprintf("%s", of)
	for _, word := range words {
		if strings.Contains(text, word) {
			t.Errorf("%q is left in %.300s", word, text)
		}
	}
}
