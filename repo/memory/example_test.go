package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// A unit test has a store of its own.
func ExampleNew() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	messages, err := store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "hello"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(messages[0].Sequence, messages[0].Content)
	// Output: 0 hello
}
