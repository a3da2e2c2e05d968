package a2atest

import (
	"context"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// asking is an agent that asks once, and is content with any answer.
type asking struct{}

func (asking) Execute(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if execution.StoredTask != nil {
			yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCompleted, nil), nil)
			return
		}
		_ = yield(a2a.NewSubmittedTask(execution, execution.Message), nil) &&
			yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateInputRequired, nil), nil)
	}
}

func (asking) Cancel(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCanceled, nil), nil)
	}
}

type unsent struct{}

func (unsent) SendPush(context.Context, *a2a.PushConfig, a2a.Event) error { return nil }

// loginKey has a user that only requests carry, and no work that comes of them.
type loginKey struct{}

func loggedIn(ctx context.Context, name string) context.Context {
	return context.WithValue(as(ctx, name), loginKey{}, name)
}

func fromLogin(ctx context.Context) (string, error) {
	if name, is := ctx.Value(loginKey{}).(string); is {
		return name, nil
	}
	return "", a2a.ErrUnauthenticated
}

// Another user's task can be neither got, continued, cancelled nor followed, has no push notifications for others,
// and its existence is not told.
func testUsers(t *testing.T, _ *a2astore.Cluster, store repo.Store) {
	c, err := a2astore.New(t.Context(), store, a2astore.Options{Name: "users-of-two", Authenticator: fromLogin})
	must(t, err)
	t.Cleanup(c.Close)
	pushes := a2asrv.WithPushNotifications(c.Push, unsent{})
	handler := a2asrv.NewHandler(asking{}, a2asrv.WithClusterMode(c.Config()), pushes)
	ctx := await.Context(t)
	owner := loggedIn(ctx, user)
	send := func(ctx context.Context, id a2a.TaskID) (a2a.SendMessageResult, error) {
		message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))
		message.TaskID = id
		return handler.SendMessage(ctx, &a2a.SendMessageRequest{Message: message})
	}
	result, err := send(owner, "")
	must(t, err)
	id := result.TaskInfo().TaskID
	config, err := handler.CreateTaskPushConfig(owner, &a2a.PushConfig{TaskID: id, URL: "https://example.org/push", Token: "secret"})
	must(t, err)
	before, err := c.Tasks.Get(owner, id)
	must(t, err)
	if before.User != user || before.Task.Status.State != a2a.TaskStateInputRequired {
		t.Errorf("%+v", before)
	}
	for name, want := range map[string]error{"bob": a2a.ErrTaskNotFound, "": a2a.ErrTaskNotFound, "nobody": a2a.ErrUnauthenticated} {
		ctx := loggedIn(ctx, name)
		if name == "nobody" {
			ctx = as(t.Context(), user)
		}
		for call, err := range strangers(ctx, c, handler, send, before, config) {
			switch {
			case call == "create" && name != "nobody":
				wantError(t, err, taskstore.ErrTaskAlreadyExists)
			case call == "subscribe": // the framework says the same of each error
				wantError(t, err, a2a.ErrTaskNotFound)
			default:
				wantError(t, err, want)
			}
		}
	}
	after, err := c.Tasks.Get(owner, id)
	must(t, err)
	configs, err := handler.ListTaskPushConfigs(owner, &a2a.ListTaskPushConfigRequest{TaskID: id})
	must(t, err)
	if after.Version != before.Version || len(configs.Configs) != 1 {
		t.Errorf("version %d, was %d; %d push configurations", after.Version, before.Version, len(configs.Configs))
	}
	result, err = send(owner, id)
	must(t, err)
	if task, is := result.(*a2a.Task); !is || task.Status.State != a2a.TaskStateCompleted {
		t.Errorf("%+v", result)
	}
}

// strangers yields what each call says that is about a task.
func strangers(ctx context.Context, c *a2astore.Cluster, h a2asrv.RequestHandler,
	send func(context.Context, a2a.TaskID) (a2a.SendMessageResult, error), stored *taskstore.StoredTask, config *a2a.PushConfig,
) iter.Seq2[string, error] {
	id := stored.Task.ID
	first := func(events iter.Seq2[a2a.Event, error]) (err error) {
		for _, err = range events {
			break
		}
		return err
	}
	calls := map[string]func() error{
		"get":       func() error { _, err := h.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); return err },
		"cancel":    func() error { _, err := h.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id}); return err },
		"send":      func() error { _, err := send(ctx, id); return err },
		"subscribe": func() error { return first(h.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id})) },
		"stream": func() error {
			message := a2a.NewMessageForTask(a2a.MessageRoleUser, stored.Task, a2a.NewTextPart("hello"))
			return first(h.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: message}))
		},
		"get push": func() error {
			_, err := h.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: id, ID: config.ID})
			return err
		},
		"list pushes": func() error {
			_, err := h.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: id})
			return err
		},
		"set push": func() error { _, err := h.CreateTaskPushConfig(ctx, config); return err },
		"delete push": func() error {
			return h.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: id, ID: config.ID})
		},
		"update": func() error {
			_, err := c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: stored.Version})
			return err
		},
		"create": func() error { _, err := c.Tasks.Create(ctx, stored.Task); return err },
		"read":   func() error { _, err := c.Events.CreateReader(ctx, id); return err },
	}
	return func(yield func(string, error) bool) {
		for name, call := range calls {
			if !yield(name, call()) {
				return
			}
		}
	}
}
