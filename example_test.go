package agentstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// The examples run on the store in memory, which needs no database. With a URL of
// PostgreSQL nothing else changes.
const exampleURL = "memory://example"

func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	session, err := store.Sessions().Create(ctx, repo.NewSession{Actor: "openai/gpt"})
	if err != nil {
		log.Fatal(err)
	}
	// A turn is stored whole or not at all.
	if _, err := store.Sessions().Append(ctx, session.ID,
		repo.NewMessage{Role: repo.RoleUser, Content: "hello"},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "hi"},
	); err != nil {
		log.Fatal(err)
	}
	for message, err := range store.Sessions().Stream(ctx, session.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.Sequence, message.Role, message.Content)
	}
	// Output:
	// 0 user hello
	// 1 assistant hi
}

// A caller whose answer is to what it has read appends at the sequence after that.
// If others were faster it reads what it missed, and tries again.
func Example_expectedSequence() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	say := func(content string) repo.NewMessage { return repo.NewMessage{Role: repo.RoleUser, Content: content} }
	if _, err := store.Sessions().Append(ctx, session.ID, say("one"), say("two")); err != nil {
		log.Fatal(err)
	}
	next := int64(1) // only "one" was read
	for {
		_, err := store.Sessions().AppendAt(ctx, session.ID, next, say("an answer to all"))
		conflict, ok := errors.AsType[*repo.SequenceConflict](err)
		if !ok {
			fmt.Println("appended at", next, err)
			break
		}
		for message, err := range store.Sessions().Stream(ctx, session.ID, conflict.Expected) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("missed", message.Sequence, message.Content)
			next = message.Sequence + 1
		}
	}
	// Output:
	// missed 1 two
	// appended at 2 <nil>
}

// Usage is added within a budget, and once for each id, so that a retry is not paid
// for twice.
func Example_usage() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	budget := 2 * repo.CostUnit
	session, err := store.Sessions().Create(ctx, repo.NewSession{Budget: &budget})
	if err != nil {
		log.Fatal(err)
	}
	turn := repo.NewUsage{ID: repo.NewID(), InputTokens: 1200, OutputTokens: 80, Cost: 3 * repo.CostUnit / 2}
	for range 2 { // the second time as after an answer that was lost
		usage, err := store.Sessions().AddUsage(ctx, session.ID, turn)
		fmt.Println(usage.InputTokens, usage.OutputTokens, usage.Cost, err)
	}
	_, err = store.Sessions().AddUsage(ctx, session.ID, repo.NewUsage{Cost: repo.CostUnit})
	if exceeded, ok := errors.AsType[*repo.BudgetExceeded](err); ok {
		fmt.Println("left:", exceeded.Budget-exceeded.Cost)
	}
	// Output:
	// 1200 80 1.5 <nil>
	// 1200 80 1.5 <nil>
	// left: 0.5
}

// Several calls in one transaction: all of it, or nothing.
func Example_inTx() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	id := repo.NewID()
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Create(ctx, repo.NewSession{ID: id}); err != nil {
			return err
		}
		return errors.New("changed my mind")
	})
	fmt.Println(err)
	_, err = store.Sessions().Get(ctx, id)
	fmt.Println(errors.Is(err, repo.ErrNotFound))
	// Output:
	// changed my mind
	// true
}

// A plan goes through its lifecycle. Of several callers who make the same
// transition one succeeds, and the others are told where the plan is.
func Example_plan() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "local/review", ActionDefinition: repo.ActionDefinition{
		Reusable:         true,
		DefinitionOfDone: "{{.branch}} is reviewed",
		Arguments:        []repo.Argument{{Name: "branch", Type: repo.ArgumentString, Required: true}},
	}}); err != nil {
		log.Fatal(err)
	}
	plan, err := store.Plans().Use(ctx, "review", repo.UseAction{
		Arguments: []repo.ArgumentValue{{Name: "branch", Value: json.RawMessage(`"main"`)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.DefinitionOfDone)
	for range 2 {
		plan, err = store.Plans().Transition(ctx, plan.ID, repo.TransitionStart, repo.Cause{Actor: "worker-7"})
		if conflict, ok := errors.AsType[*repo.TransitionConflict](err); ok {
			fmt.Println("too late:", conflict.Phase, conflict.State)
			break
		}
		fmt.Println(plan.Phase, plan.State)
	}
	// Output:
	// main is reviewed
	// strategize processing
	// too late: strategize processing
}

// A session as a document, from one store to another.
func Example_export() {
	ctx := context.Background()
	from, err := agentstore.Open(ctx, "memory://from")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	to, err := agentstore.Open(ctx, "memory://to")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	session, err := from.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := from.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "hello"}); err != nil {
		log.Fatal(err)
	}
	var document bytes.Buffer
	if err := from.Sessions().Export(ctx, session.ID, &document); err != nil {
		log.Fatal(err)
	}
	imported, err := to.Sessions().Import(ctx, &document)
	fmt.Println(imported.ID == session.ID, imported.MessageCount, err)
	// Output: true 1 <nil>
}
