package adk_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/adapters/adk"
)

// Two sessions of a user's share what begins with "user:". What a runner of ADK's does with
// the service, this does by hand.
func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://adk-example", agentstore.Options{}) // or postgres://…
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	service := adk.NewSessionService(store) // runner.Config{SessionService: service, …}

	for _, id := range []string{"monday", "tuesday"} {
		created, err := service.Create(ctx, &session.CreateRequest{AppName: "shop", UserID: "ada", SessionID: id})
		if err != nil {
			log.Fatal(err)
		}
		visits, _ := created.Session.State().Get("user:visits")
		count, _ := visits.(float64) // as JSON has it
		event := session.NewEvent(ctx, "invocation")
		event.Author = "greeter"
		event.LLMResponse = model.LLMResponse{Content: genai.NewContentFromText(fmt.Sprintf("Hello for the %v. time!", count+1), genai.RoleModel)}
		event.Actions.StateDelta["user:visits"] = count + 1
		if err := service.AppendEvent(ctx, created.Session, event); err != nil {
			log.Fatal(err)
		}
	}
	// A session of ADK's is one of the store. Follow yields further messages as they come.
	tuesday, err := store.Sessions().Find(ctx, adk.SessionKey("shop", "ada", "tuesday"))
	if err != nil {
		log.Fatal(err)
	}
	for message, err := range store.Sessions().Messages(ctx, tuesday, 0) {
		if err != nil {
			log.Fatal(err)
		}
		event, err := adk.Event(message)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.Sequence, event.Author, message.Content)
	}
	// Output:
	// 0 greeter Hello for the 2. time!
}
