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

// The examples use the store in memory, which needs no database. With a PostgreSQL
// URL nothing else changes.
const exampleURL = "memory://example"

func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	session, err := store.Sessions().Create(ctx, repo.NewSession{Actor: "openai/gpt"})
	if err != nil {
		log.Fatal(err)
	}
	// The messages of one call are stored together or not at all.
	if _, err := store.Sessions().Append(ctx, session.ID,
		repo.NewMessage{Role: repo.RoleUser, Content: "hello"},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "hi"},
	); err != nil {
		log.Fatal(err)
	}
	for message, err := range store.Sessions().Messages(ctx, session.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.Sequence, message.Role, message.Content)
	}
	// Output:
	// 0 user hello
	// 1 assistant hi
}

// A session that callers find by a key of their own, which is made of several ids: the
// first message creates it.
func Example_sessionKey() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	key := repo.SessionKey{Namespace: "chat", Key: repo.JoinKey("acme", "support", "user/42", "1")}
	for _, content := range []string{"hello", "are you there?"} {
		_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
			Create:   &repo.NewSession{Namespace: key.Namespace, Key: key.Key, Owner: "user/42"},
			Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: content}},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	id, err := store.Sessions().Find(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	stored, err := store.Sessions().Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Key, stored.Owner, stored.MessageCount)

	_, err = store.Sessions().Find(ctx, repo.SessionKey{Namespace: "chat", Key: "other"})
	fmt.Println(err)
	// Output:
	// acme/support/user~142/1 user/42 2
	// session "other" in namespace "chat" not found
}

// A caller that answers what it has read appends at the next sequence. If others were
// faster, it reads what it has missed and tries again.
func Example_expectedSequence() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
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
		_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: session.ID, Expected: &next, Messages: []repo.NewMessage{say("an answer to all")},
		})
		conflict, ok := errors.AsType[*repo.SequenceConflictError](err)
		if !ok {
			fmt.Println("appended at", next, err)
			break
		}
		for message, err := range store.Sessions().Messages(ctx, session.ID, conflict.Expected) {
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

// Usage is added within a budget, and once for each id, so that a retry does not
// count twice.
func Example_usage() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
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
	for range 2 { // the second call is a retry, as after a lost answer
		usage, err := store.Sessions().AddUsage(ctx, session.ID, turn)
		fmt.Println(usage.InputTokens, usage.OutputTokens, usage.Cost, err)
	}
	_, err = store.Sessions().AddUsage(ctx, session.ID, repo.NewUsage{Cost: repo.CostUnit})
	if exceeded, ok := errors.AsType[*repo.LimitExceededError](err); ok {
		fmt.Println("left:", repo.Cost(exceeded.Limit-exceeded.Current))
	}
	// Output:
	// 1200 80 1.5 <nil>
	// 1200 80 1.5 <nil>
	// left: 0.5
}

// State that sessions share: writers change keys, not whole documents, and a version
// says whether another writer was first.
func Example_state() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	user := repo.Scope{Name: repo.JoinKey("app", "shop", "user", "4711")}
	_, err = store.State().Change(ctx, []repo.StateChange{
		{Scope: user, Key: "language", Value: json.RawMessage(`"fr"`)},
		{Scope: user, Key: "visits", Op: repo.StateIncrement, By: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	states, err := store.State().Read(ctx, user)
	if err != nil {
		log.Fatal(err)
	}
	for _, value := range states[0].Values {
		fmt.Println(value.Key, string(value.Value))
	}
	// Only if the language is as it was read.
	read := states[0].Values[0].Version
	for _, language := range []string{`"de"`, `"it"`} {
		_, err = store.State().Change(ctx, []repo.StateChange{
			{Scope: user, Key: "language", Value: json.RawMessage(language), IfVersion: &read},
		})
		if conflict, ok := errors.AsType[*repo.VersionConflictError](err); ok {
			fmt.Println(conflict.Name, "was changed:", conflict.Actual > conflict.Expected)
		}
	}
	// Output:
	// language "fr"
	// visits 1
	// language was changed: true
}

// What a turn begins with: the last messages of a session, its state and the user's, as
// they are at one moment.
func Example_read() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range []string{"one", "two", "three"} {
		if _, err := store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: content}); err != nil {
			log.Fatal(err)
		}
	}
	user := repo.Scope{Name: repo.JoinKey("shop", "ada")}
	if _, err := store.State().Change(ctx, []repo.StateChange{
		{Scope: user, Key: "language", Value: json.RawMessage(`"fr"`)},
		{Scope: repo.Scope{SessionID: session.ID}, Key: "topic", Value: json.RawMessage(`"bicycles"`)},
	}); err != nil {
		log.Fatal(err)
	}
	snapshot, err := store.Sessions().Read(ctx, repo.ReadSessions{
		IDs: []repo.ID{session.ID, repo.NewID()}, Last: 2, State: true, Scopes: []string{user.Name},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range snapshot.Sessions {
		if entry == nil {
			fmt.Println("no such session")
			continue
		}
		for _, message := range entry.Messages {
			fmt.Println(message.Sequence, message.Content)
		}
		for _, value := range append(entry.State.Values, snapshot.Scopes[0].Values...) {
			fmt.Println(value.Key, string(value.Value))
		}
	}
	// Output:
	// 1 two
	// 2 three
	// topic "bicycles"
	// language "fr"
	// no such session
}

// Several calls in one transaction: all of them take effect, or none.
func Example_inTx() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
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

// A plan goes through its lifecycle. If several callers attempt the same transition,
// one succeeds, and the others get an error that says where the plan is.
func Example_plan() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
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
		if conflict, ok := errors.AsType[*repo.TransitionConflictError](err); ok {
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

// A session is moved from one store to another as a document.
func Example_export() {
	ctx := context.Background()
	from, err := agentstore.Open(ctx, "memory://from", agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	to, err := agentstore.Open(ctx, "memory://to", agentstore.Options{})
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
	imported, err := to.Sessions().Import(ctx, &document, false)
	fmt.Println(imported.ID == session.ID, imported.MessageCount, err)
	// Output: true 1 <nil>
}

// A worker that holds the lease of a session, so that no other one answers the same user
// meanwhile.
func Example_lease() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	answer := func(worker string) error {
		held, err := repo.HoldLease(ctx, store, repo.NewLease{Key: repo.SessionLease(session.ID), Owner: worker})
		if err != nil {
			return err
		}
		defer func() { _ = held.Release(context.WithoutCancel(ctx)) }()

		// Another worker that wants to answer meanwhile:
		_, err = repo.HoldLease(ctx, store, repo.NewLease{Key: repo.SessionLease(session.ID), Owner: "worker-2"})
		if conflict, ok := errors.AsType[*repo.LeaseConflictError](err); ok {
			fmt.Println("held by", conflict.Holder)
		}
		// The context ends when the lease is lost.
		_, err = store.Sessions().Append(held.Context(), session.ID, repo.NewMessage{Role: repo.RoleAssistant, Content: "hi"})
		return err
	}
	if err := answer("worker-1"); err != nil {
		log.Fatal(err)
	}
	released, err := store.Leases().List(ctx, repo.LeaseFilter{Kind: repo.LeaseOfSession}, repo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leases left:", len(released.Items))
	// Output:
	// held by worker-1
	// leases left: 0
}
