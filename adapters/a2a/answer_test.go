package a2astore_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// echo is an agent that answers without a task.
type echo struct{ greeter }

func (echo) Execute(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello")), nil)
	}
}

// Who sends a message again after a lost answer gets the answer, also if there is no task.
func TestAnswerWithoutTaskIsGivenAgain(t *testing.T) {
	store := memory.New()
	defer store.Close()
	options := a2astore.Options{Authenticator: func(context.Context) (string, error) { return "ann", nil }}
	cluster, err := a2astore.New(t.Context(), store, options)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	handler := a2asrv.NewHandler(echo{}, a2asrv.WithClusterMode(cluster.Config()))
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("Ann"))
	for i := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		result, err := handler.SendMessage(ctx, &a2a.SendMessageRequest{Message: message})
		cancel()
		answer, isMessage := result.(*a2a.Message)
		if err != nil || !isMessage || answer.Parts[0].Text() != "hello" {
			t.Errorf("time %d: %v, %v", i+1, result, err)
		}
	}
}
