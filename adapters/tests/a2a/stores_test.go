package a2atest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-df90f812/agentstore"
	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// TestStores runs the tests of this package's functions on PostgreSQL and in memory, each in
// a cluster of its own name.
func TestStores(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, *a2astore.Cluster, repo.Store){
		"tasks": testTasks, "too-much": testTooMuch, "concurrent-updates": testConcurrentUpdates, "list": testList, "list-tied": testListTied, "list-redacted": testListRedacted, "list-updated": testListUpdated, "push": testPush,
		"events": testEvents, "answer": testAnswer, "leases": testLeases, "work": testWork, "work-again": testWorkAgain,
		"unreadable": testUnreadable, "dying": testDying, "users": testUsers, "deleted": testDeleted, "erased": testErased, "odd-text": testOddText,
	}
	for name, databaseURL := range map[string]string{"postgres": pgtest.NewDatabase(t), "memory": "memory://" + t.Name()} {
		t.Run(name, func(t *testing.T) {
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c, err := a2astore.New(t.Context(), store, a2astore.Options{Name: name, TTL: time.Hour, MaxAttempts: 2})
					must(t, err)
					t.Cleanup(c.Close)
					test(t, c, store)
				})
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// as returns the context of a request of a user's.
func as(ctx context.Context, name string) context.Context {
	ctx, call := a2asrv.NewCallContext(ctx, nil)
	call.User = a2asrv.NewAuthenticatedUser(name, nil)
	return ctx
}

func newTask(state a2a.TaskState) *a2a.Task {
	return &a2a.Task{ID: a2a.NewTaskID(), ContextID: a2a.NewContextID(), Status: a2a.TaskStatus{State: state}}
}

func testTasks(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateSubmitted)
	task.Metadata = map[string]any{"text": `a "quoted" <text>`, "list": []any{1.5, nil, true}}
	task.History = []*a2a.Message{a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"), a2a.NewRawPart([]byte{0, 255}))}
	update := func(prev taskstore.TaskVersion) (taskstore.TaskVersion, error) {
		return c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: prev})
	}
	_, err := c.Tasks.Get(ctx, task.ID)
	wantError(t, err, a2a.ErrTaskNotFound)
	for _, prev := range []taskstore.TaskVersion{taskstore.TaskVersionMissing, 7} {
		_, err = update(prev)
		wantError(t, err, a2a.ErrTaskNotFound)
	}
	_, err = c.Events.CreateReader(ctx, task.ID) // makes the session, but not the task
	must(t, err)
	_, err = c.Tasks.Get(ctx, task.ID)
	wantError(t, err, a2a.ErrTaskNotFound)
	_, err = update(taskstore.TaskVersionMissing)
	wantError(t, err, a2a.ErrTaskNotFound)

	first, err := c.Tasks.Create(ctx, task)
	must(t, err)
	_, err = c.Tasks.Create(ctx, task)
	wantError(t, err, taskstore.ErrTaskAlreadyExists)
	stored, err := c.Tasks.Get(ctx, task.ID)
	must(t, err)
	if diff := cmp.Diff(stored, &taskstore.StoredTask{Task: task, Version: first, User: user}); diff != "" {
		t.Error(diff)
	}
	task.Status.State = a2a.TaskStateWorking
	second, err := update(first)
	must(t, err)
	_, err = update(first)
	wantError(t, err, taskstore.ErrConcurrentModification)
	third, err := update(taskstore.TaskVersionMissing) // whatever it is
	must(t, err)
	if !second.After(first) || !third.After(second) {
		t.Errorf("versions %d, %d, %d", first, second, third)
	}
	stored, err = c.Tasks.Get(ctx, task.ID)
	must(t, err)
	if stored.Version != third || stored.Task.Status.State != a2a.TaskStateWorking {
		t.Errorf("version %d, %s; want %d", stored.Version, stored.Task.Status.State, third)
	}
}

// What cannot be stored is refused with the field and the reason, and without the contents.
func testTooMuch(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	for _, text := range []string{strings.Repeat("secret", limits.MaxStateValueBytes/6), "secret\x00"} {
		task := newTask(a2a.TaskStateWorking)
		task.Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart(text)}}}
		_, err := c.Tasks.Create(as(t.Context(), user), task)
		invalid, ok := errors.AsType[*repo.InvalidError](err)
		if tooLong := len(text) > 10; ok != tooLong || ok && (invalid.Field != "state[0].value" || strings.Contains(err.Error(), "secret")) {
			t.Errorf("error %v", err)
		}
		_, err = c.Work.Write(as(t.Context(), user), execute(task.ID, text))
		invalid, ok = errors.AsType[*repo.InvalidError](err)
		if !ok || invalid.Field != "changes[0].value" || strings.Contains(err.Error(), "secret") {
			t.Errorf("work: error %v", err)
		}
	}
	_, err := c.Tasks.Create(as(t.Context(), user), &a2a.Task{})
	wantError(t, err, a2a.ErrInvalidParams)
	_, err = c.Tasks.Create(as(t.Context(), user), &a2a.Task{ID: a2a.TaskID(strings.Repeat("x", repo.MaxKeyBytes+1))})
	wantError(t, err, repo.ErrInvalid)
	for _, options := range []a2astore.Options{{Name: "a b"}, {TTL: 1}, {MaxAttempts: -1}} { // short: all are refused
		_, err := a2astore.New(t.Context(), memory.New(), options)
		wantError(t, err, repo.ErrInvalid)
	}
}

// What an agent says ends no work: U+FFFD stands for NUL, and for bytes that are no UTF-8.
func testOddText(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateWorking)
	_, err := c.Tasks.Create(ctx, task)
	must(t, err)
	events, err := c.Events.CreateReader(ctx, task.ID)
	must(t, err)
	defer func() { must(t, events.Close()) }()
	part := a2a.NewTextPart("\x00 \\u0000 caf\xe9")
	task.Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{part}}}
	_, err = c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: task, Event: a2a.NewArtifactEvent(task, part)})
	must(t, err)
	stored, err := c.Tasks.Get(ctx, task.ID)
	must(t, err)
	told, err := events.Read(ctx)
	must(t, err)
	const want = "\ufffd \\u0000 caf\ufffd"
	event, is := told.Event.(*a2a.TaskArtifactUpdateEvent)
	if got := stored.Task.Artifacts[0].Parts[0].Text(); got != want || !is || event.Artifact.Parts[0].Text() != want {
		t.Errorf("%q, %+v", got, told.Event)
	}
}

// What the framework writes as JSON and cannot read again is refused: stored, it would make the task, each
// list that it is in and the work unreadable.
func testUnreadable(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateWorking)
	version, err := c.Tasks.Create(ctx, task)
	must(t, err)
	session, err := store.Sessions().Find(ctx, repo.SessionKey{Namespace: "unreadable", Key: string(task.ID)})
	must(t, err)
	own := repo.Scope{SessionID: session}
	_, err = store.State().Change(ctx, []repo.StateChange{{Scope: own, Key: "a key of the agent's", Value: []byte("{}")}})
	must(t, err)
	refused := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*repo.InvalidError](err); !ok || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	}
	for _, part := range []*a2a.Part{a2a.NewDataPart(nil), a2a.NewRawPart(nil), a2a.NewFileURLPart("", "secret"), {Filename: "secret"}} {
		changed, work := *task, execute(a2a.NewTaskID(), "secret")
		changed.Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{part}}}
		_, err := c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: &changed, PrevVersion: version})
		refused(err)
		_, err = c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: task, PrevVersion: version, Event: a2a.NewArtifactEvent(task, part)})
		refused(err)
		work.ExecuteRequest.Message.Parts = a2a.ContentParts{part}
		_, err = c.Work.Write(ctx, work)
		refused(err)
	}
	listed, err := c.Tasks.List(ctx, &a2a.ListTasksRequest{})
	must(t, err)
	if stored, err := c.Tasks.Get(ctx, task.ID); err != nil || stored.Version != version || stored.Task.ID != task.ID || len(listed.Tasks) != 1 {
		t.Errorf("%+v, %v; %d are listed", stored, err, len(listed.Tasks))
	}
}

// increment adds one to a number in the task, again and again, by several writers at once, and
// returns what came out.
func increment(t *testing.T, c *a2astore.Cluster, writers, times int, prev func(taskstore.TaskVersion) taskstore.TaskVersion) (int, map[taskstore.TaskVersion]bool) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateWorking)
	task.Metadata = map[string]any{"n": 0.0}
	_, err := c.Tasks.Create(ctx, task)
	must(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex
	versions := map[taskstore.TaskVersion]bool{}
	for range writers {
		running.Go(func() {
			for added := 0; added < times; {
				stored, err := c.Tasks.Get(ctx, task.ID)
				if err != nil {
					t.Error(err)
					return
				}
				stored.Task.Metadata["n"] = stored.Task.Metadata["n"].(float64) + 1
				version, err := c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: prev(stored.Version)})
				if errors.Is(err, taskstore.ErrConcurrentModification) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				versions[version] = true
				mu.Unlock()
				added++
			}
		})
	}
	running.Wait()
	stored, err := c.Tasks.Get(ctx, task.ID)
	must(t, err)
	return int(stored.Task.Metadata["n"].(float64)), versions
}

// Of concurrent updates of a version one is accepted, and each has a version of its own.
// Without a version, updates overwrite each other, as the harness sees.
func testConcurrentUpdates(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	sum, versions := increment(t, c, 4, 10, func(v taskstore.TaskVersion) taskstore.TaskVersion { return v })
	if sum != 40 || len(versions) != 40 {
		t.Errorf("40 increments made %d, in %d versions", sum, len(versions))
	}
	for attempt := 0; ; attempt++ {
		sum, _ := increment(t, c, 4, 10, func(taskstore.TaskVersion) taskstore.TaskVersion { return taskstore.TaskVersionMissing })
		if sum < 40 {
			break
		} else if attempt == 100 {
			t.Fatal("the harness finds no lost update")
		}
	}
}

func testList(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx, start := as(t.Context(), user), time.Now().Truncate(time.Second)
	var tasks []*a2a.Task
	for i := range 7 {
		task := newTask([]a2a.TaskState{a2a.TaskStateWorking, a2a.TaskStateCompleted}[i%2])
		task.ContextID = fmt.Sprint("context ", i%3)
		at := start.Add(time.Duration(i) * time.Second)
		task.Status.Timestamp = &at
		task.History = []*a2a.Message{a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("1")), a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("2"))}
		task.Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}
		_, err := c.Tasks.Create(ctx, task)
		must(t, err)
		tasks = append(tasks, task)
	}
	_, err := c.Tasks.Create(as(t.Context(), "bob"), newTask(a2a.TaskStateWorking))
	must(t, err)
	_, err = c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: tasks[2]}) // comes first now
	must(t, err)
	order := []int{2, 6, 5, 4, 3, 1, 0}
	list := func(req a2a.ListTasksRequest, want ...int) *a2a.ListTasksResponse {
		t.Helper()
		got, err := c.Tasks.List(ctx, &req)
		must(t, err)
		var indices []int
		for _, task := range got.Tasks {
			indices = append(indices, slices.IndexFunc(tasks, func(other *a2a.Task) bool { return other.ID == task.ID }))
		}
		if !slices.Equal(indices, want) {
			t.Errorf("%+v lists %v, want %v", req, indices, want)
		}
		return got
	}
	one, zero, all := 1, 0, -1
	after := start.Add(4 * time.Second)
	got := list(a2a.ListTasksRequest{}, order...)
	if got.TotalSize != 7 || got.PageSize != 50 || got.NextPageToken != "" || len(got.Tasks[0].History) != 2 || got.Tasks[0].Artifacts != nil {
		t.Errorf("%+v", got)
	}
	list(a2a.ListTasksRequest{ContextID: "context 1"}, 4, 1)
	list(a2a.ListTasksRequest{Status: a2a.TaskStateCompleted}, 5, 3, 1)
	list(a2a.ListTasksRequest{StatusTimestampAfter: &after}, 6, 5, 4)
	list(a2a.ListTasksRequest{ContextID: "none"})
	got = list(a2a.ListTasksRequest{ContextID: "context 1", HistoryLength: &one, IncludeArtifacts: true}, 4, 1)
	if len(got.Tasks[0].History) != 1 || got.Tasks[0].History[0].Parts[0].Text() != "2" || len(got.Tasks[0].Artifacts) != 1 {
		t.Errorf("%+v", got.Tasks[0])
	}
	got = list(a2a.ListTasksRequest{ContextID: "context 1", HistoryLength: &zero}, 4, 1)
	if len(got.Tasks[0].History) != 0 {
		t.Errorf("%+v", got.Tasks[0])
	}
	got = list(a2a.ListTasksRequest{ContextID: "context 1", HistoryLength: &all}, 4, 1)
	if len(got.Tasks[0].History) != 2 {
		t.Errorf("%+v", got.Tasks[0])
	}
	for _, size := range []int{1, 3, 6, 7} {
		token := ""
		for rest := order; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			page := list(a2a.ListTasksRequest{PageSize: size, PageToken: token}, rest[:min(size, len(rest))]...)
			token = page.NextPageToken
			if page.TotalSize != 7 || (token == "") != (len(rest) <= size) {
				t.Errorf("page of %d: %+v", size, page)
			}
		}
	}
	for req, want := range map[*a2a.ListTasksRequest]error{
		{PageSize: 101}: a2a.ErrInvalidRequest, {PageSize: -1}: a2a.ErrInvalidRequest, {PageToken: "no token"}: a2a.ErrParseError,
	} {
		_, err := c.Tasks.List(ctx, req)
		wantError(t, err, want)
	}
	for _, nobody := range []context.Context{t.Context(), as(t.Context(), "")} {
		_, err = c.Tasks.List(nobody, &a2a.ListTasksRequest{})
		wantError(t, err, a2a.ErrUnauthenticated)
	}
}

// A task is listed, and goes on, after what its session's last message says was redacted.
func testListRedacted(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateWorking)
	_, err := c.Tasks.Create(ctx, task)
	must(t, err)
	session, err := store.Sessions().Find(ctx, repo.SessionKey{Namespace: "list-redacted", Key: string(task.ID)})
	must(t, err)
	must(t, store.Sessions().Redact(ctx, session, []int64{0}, repo.Cause{Reason: "x"}))
	for state, want := range map[a2a.TaskState]int{a2a.TaskStateWorking: 1, a2a.TaskStateCompleted: 0, a2a.TaskStateUnspecified: 1} {
		listed, err := c.Tasks.List(ctx, &a2a.ListTasksRequest{Status: state})
		if must(t, err); len(listed.Tasks) != want {
			t.Errorf("%d tasks are %q", len(listed.Tasks), state)
		}
	}
	stored, err := c.Tasks.Get(ctx, task.ID)
	must(t, err)
	_, err = c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: stored.Version})
	must(t, err)
}

// Of tasks with the same time, pages have each once.
func testListTied(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, tasks, seen := as(t.Context(), user), 20, map[a2a.TaskID]int{}
	for range tasks {
		_, err := c.Tasks.Create(ctx, newTask(a2a.TaskStateWorking))
		must(t, err)
	}
	if pool := store.(*agentstore.Store).Pool(); pool != nil { // in memory, times differ
		pgtest.Exec(t, pool, `UPDATE session_counters SET updated_at = '2100-01-01'
			WHERE session_id IN (SELECT id FROM sessions WHERE namespace = 'list-tied')`)
	}
	for token := "-"; token != ""; {
		page, err := c.Tasks.List(ctx, &a2a.ListTasksRequest{PageSize: 7, PageToken: strings.TrimPrefix(token, "-")})
		must(t, err)
		for _, task := range page.Tasks {
			seen[task.ID]++
		}
		token = page.NextPageToken
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("task %s is listed %d times", id, times)
		}
	}
	if len(seen) != tasks {
		t.Errorf("%d of %d tasks are listed", len(seen), tasks)
	}
}

// A task that is updated between two pages is on one of them at least, however often it is.
func testListUpdated(t *testing.T, c *a2astore.Cluster, _ repo.Store) {
	ctx, seen := as(t.Context(), user), map[a2a.TaskID]int{}
	var tasks []*a2a.Task
	for range 7 {
		task := newTask(a2a.TaskStateWorking)
		_, err := c.Tasks.Create(ctx, task)
		must(t, err)
		tasks = append(tasks, task)
	}
	token := ""
	for pages := 1; ; pages++ {
		page, err := c.Tasks.List(ctx, &a2a.ListTasksRequest{PageSize: 2, PageToken: token})
		must(t, err)
		for _, task := range page.Tasks {
			seen[task.ID]++
		}
		if token = page.NextPageToken; token == "" {
			break
		}
		if pages < 4 { // of the first ones, which the list would reach last
			for _, task := range tasks[:pages] {
				_, err := c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: task})
				must(t, err)
			}
		}
	}
	for i, task := range tasks {
		if seen[task.ID] == 0 {
			t.Errorf("task %d is on no page", i)
		}
	}
}

func testPush(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, task := as(t.Context(), user), a2a.NewTaskID()
	// Asking for what is not there makes nothing.
	list, err := c.Push.List(ctx, task)
	must(t, err)
	_, err = c.Push.Get(ctx, task, "x")
	wantError(t, err, push.ErrPushConfigNotFound)
	must(t, c.Push.Delete(ctx, task, "x"))
	must(t, c.Push.DeleteAll(ctx, task))
	made, err := store.Sessions().List(ctx, repo.SessionFilter{Namespace: "push", AnyOwner: true}, repo.Page{})
	if must(t, err); len(list)+len(made.Items) > 0 {
		t.Errorf("%d configurations and %d sessions of an unknown task", len(list), len(made.Items))
	}
	for _, bad := range []*a2a.PushConfig{nil, {}, {URL: "no url"}} {
		_, err := c.Push.Save(ctx, task, bad)
		wantError(t, err, a2a.ErrInvalidParams)
	}
	given := &a2a.PushConfig{URL: "https://example.org/push", Token: "secret", Auth: &a2a.PushAuthInfo{Scheme: "Bearer"}}
	first, err := c.Push.Save(ctx, task, given)
	must(t, err)
	if first.ID == "" || first.TaskID != task || given.ID != "" {
		t.Errorf("saved %+v, given %+v", first, given)
	}
	second, err := c.Push.Save(ctx, task, &a2a.PushConfig{ID: "~2", URL: "https://example.org/2"})
	must(t, err)
	second.URL = "https://example.org/3"
	_, err = c.Push.Save(ctx, task, second)
	must(t, err)
	want := func(want ...*a2a.PushConfig) {
		t.Helper()
		got, err := c.Push.List(ctx, task)
		must(t, err)
		if len(got)+len(want) > 0 && !cmp.Equal(got, want) {
			t.Error(cmp.Diff(got, want))
		}
	}
	want(first, second)
	got, err := c.Push.Get(ctx, task, "~2")
	must(t, err)
	if !cmp.Equal(got, second) {
		t.Error(cmp.Diff(got, second))
	}
	must(t, c.Push.Delete(ctx, task, "~2"))
	must(t, c.Push.Delete(ctx, task, "~2"))
	_, err = c.Push.Get(ctx, task, "~2")
	wantError(t, err, push.ErrPushConfigNotFound)
	want(first)
	must(t, c.Push.DeleteAll(ctx, task))
	must(t, c.Push.DeleteAll(ctx, task))
	want()
}

func testEvents(t *testing.T, c *a2astore.Cluster, store repo.Store) {
	ctx, task := as(t.Context(), user), newTask(a2a.TaskStateSubmitted)
	reader := func(id a2a.TaskID) eventqueue.Reader {
		t.Helper()
		r, err := c.Events.CreateReader(ctx, id)
		must(t, err)
		t.Cleanup(func() { must(t, r.Close()) })
		return r
	}
	read := func(r eventqueue.Reader, version taskstore.TaskVersion, want a2a.Event) {
		t.Helper()
		message, err := r.Read(ctx)
		must(t, err)
		if message.TaskVersion != version || !cmp.Equal(message.Event, want) {
			t.Errorf("version %d, want %d: %s", message.TaskVersion, version, cmp.Diff(message.Event, want))
		}
	}
	update := func(event a2a.Event) taskstore.TaskVersion {
		t.Helper()
		version, err := c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: task, Event: event})
		must(t, err)
		return version
	}
	early := reader(task.ID) // before there is a task
	version, err := c.Tasks.Create(ctx, task)
	must(t, err)
	created := *task
	update(a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("of which readers are not told")))
	late := reader(task.ID)
	artifact := a2a.NewArtifactEvent(task, a2a.NewTextPart("answer"))
	written := update(artifact)
	writer, err := c.Events.CreateWriter(ctx, task.ID)
	must(t, err)
	must(t, writer.Write(ctx, &eventqueue.Message{Event: artifact, TaskVersion: written})) // as the framework does: once
	task.Status.State = a2a.TaskStateFailed
	failed := update(a2a.NewStatusUpdateEvent(task, a2a.TaskStateCompleted, nil)) // not accepted
	read(early, version, &created)
	for _, r := range []eventqueue.Reader{early, late} {
		read(r, written, artifact)
		read(r, failed, task)
	}
	// A read that waits ends with its context, with Close, and with the session.
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(10*time.Millisecond, cancel) // pace: it waits by then, or ends at once
	_, err = early.Read(short)
	wantError(t, err, context.Canceled)
	_, err = early.Read(ctx)
	wantError(t, err, eventqueue.ErrQueueClosed)
	time.AfterFunc(10*time.Millisecond, func() { _ = late.Close() }) // pace: likewise
	_, err = late.Read(ctx)
	wantError(t, err, eventqueue.ErrQueueClosed)
	last := reader(task.ID)
	time.AfterFunc(10*time.Millisecond, func() { // pace: likewise
		_, _ = bykey.Of(store.Sessions(), repo.SessionKey{Namespace: "events", Key: string(task.ID)}).Delete(ctx)
	})
	_, err = last.Read(ctx)
	wantError(t, err, eventqueue.ErrQueueClosed)

	// An answer without a task.
	id, answer := a2a.NewTaskID(), a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("no task"))
	waiting := reader(id)
	writer, err = c.Events.CreateWriter(ctx, id)
	must(t, err)
	must(t, writer.Write(ctx, &eventqueue.Message{Event: answer}))
	must(t, writer.Close())
	read(waiting, taskstore.TaskVersionMissing, answer)
	_, err = c.Tasks.Get(ctx, id)
	wantError(t, err, a2a.ErrTaskNotFound)
	listed, err := c.Tasks.List(ctx, &a2a.ListTasksRequest{})
	must(t, err)
	if listed.TotalSize > 0 {
		t.Errorf("an answer without a task counts as one: %+v", listed)
	}
}
