package a2astore_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"log/slog"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// greeter is an agent that answers each message with a greeting.
type greeter struct{}

func (greeter) Execute(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		// The task is there already if the process that had begun it died.
		if execution.StoredTask == nil && !yield(a2a.NewSubmittedTask(execution, execution.Message), nil) {
			return
		}
		name := execution.Message.Parts[0].Text()
		_ = yield(a2a.NewArtifactEvent(execution, a2a.NewTextPart("hello "+name)), nil) &&
			yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCompleted, nil), nil)
	}
}

func (greeter) Cancel(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCanceled, nil), nil)
	}
}

// replica returns the handler of a process, and what ends it. Here all of them are in one.
func replica(ctx context.Context, store repo.Store) (a2asrv.RequestHandler, func()) {
	cluster, err := a2astore.New(ctx, store, a2astore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return a2asrv.NewHandler(greeter{}, a2asrv.WithClusterMode(cluster.Config())), cluster.Close
}

// Two replicas serve the same tasks: either may execute what the other was asked for.
func Example() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx := context.Background()
	store := memory.New() // or agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{})
	defer func() { _ = store.Close() }()
	first, closeFirst := replica(ctx, store)
	defer closeFirst()
	second, closeSecond := replica(ctx, store)
	defer closeSecond()

	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("Ann"))
	result, err := first.SendMessage(ctx, &a2a.SendMessageRequest{Message: message})
	if err != nil {
		log.Fatal(err)
	}
	task, err := second.GetTask(ctx, &a2a.GetTaskRequest{ID: result.TaskInfo().TaskID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.Status.State, task.Artifacts[0].Parts[0].Text())
	// Output: TASK_STATE_COMPLETED hello Ann
}
