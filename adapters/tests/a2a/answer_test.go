package a2atest

import (
	"context"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func ann(context.Context) (string, error) { return "ann", nil }

// answering is an agent that answers without a task.
type answering struct{}

func (answering) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello")), nil)
	}
}

func (answering) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

// A client that sends a message again after a lost answer gets the answer, also if there is no
// task. That needs a known user: others' messages with one id are not the same message.
func testAnswer(t *testing.T, _ *a2astore.Cluster, store repo.Store) {
	c, err := a2astore.New(t.Context(), store, a2astore.Options{Name: "answer-of-ann", Authenticator: ann})
	must(t, err)
	t.Cleanup(c.Close)
	handler := a2asrv.NewHandler(answering{}, a2asrv.WithClusterMode(c.Config()))
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("Ann"))
	for i := range 2 {
		result, err := handler.SendMessage(await.Context(t), &a2a.SendMessageRequest{Message: message})
		answer, isMessage := result.(*a2a.Message)
		if err != nil || !isMessage || answer.Parts[0].Text() != "hello" {
			t.Errorf("time %d: %v, %v", i+1, result, err)
		}
	}
}
