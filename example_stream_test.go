package agentstore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// The parts of an answer are read while a model produces them. The whole answer is appended to
// the session. The worker that takes over from one that died begins again, and readers drop what
// that one wrote. If the model breaks off, followers learn of it at once.
func Example_stream() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	asked, err := store.Sessions().AppendTurn(ctx, repo.Turn{Create: &repo.NewSession{Key: "stream"}, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "Hi"}}})
	if err != nil {
		log.Fatal(err)
	}
	session, question := asked.SessionID, asked.Messages[0].Sequence

	follow := func(key string) {
		for part, err := range store.Streams().Follow(ctx, key, repo.StreamPosition{}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			if part.Restart {
				fmt.Print("again: ")
				continue
			}
			fmt.Printf("%q ", part.Data)
		}
		fmt.Println("finished")
	}
	dead, err := store.Streams().Open(ctx, repo.NewStream{Key: "first", Session: session, Owner: "worker 0"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Streams().Append(ctx, dead, []byte("He")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(writeAnswer(ctx, store, session, question, "first", model(nil, "Hel", "", "lo")))
	follow("first")
	fmt.Println(writeAnswer(ctx, store, session, question, "second", model(errors.New("out of words"), "Hel")))
	follow("second")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Println(watch(ctx, store, session, question+1, func(m repo.Message) {
		fmt.Println(m.Content)
		cancel()
	}))
	// Output:
	// <nil>
	// "He" again: "Hel" "lo" finished
	// out of words
	// "Hel" stream "second" failed
	// Hello
	// 2 context canceled
}

// watch shows the messages of a session from next on, those that come, too. It returns where to go on.
func watch(ctx context.Context, store *agentstore.Store, session repo.ID, next int64, show func(repo.Message)) (int64, error) {
	for message, err := range store.Sessions().Follow(ctx, session, next) {
		if err != nil {
			return next, err // NotFoundError if the session is deleted
		}
		show(message)
		next = message.Sequence + 1 // where to go on after an interruption
	}
	return next, nil
}

func writeAnswer(ctx context.Context, store *agentstore.Store, session repo.ID, question int64, key string, model iter.Seq2[string, error]) (err error) {
	// Restart: if another worker began this answer, its readers drop what it wrote.
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: key, Session: session, Owner: "worker 1", Restart: true})
	if err != nil {
		return err
	}
	writer := live.NewPartWriter(ctx, store.Streams(), stream)
	defer func() {
		if err != nil { // followers learn of it now, not when the stream expires
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = writer.Flush(ctx) // they get what there is, if it can still be stored
			err = errors.Join(err, store.Streams().Fail(ctx, stream, "interrupted"))
		}
	}()
	var answer strings.Builder
	for part, err := range model {
		if err != nil {
			return err
		}
		if part == "" {
			continue // a stream has no empty parts, a model may
		}
		if err := writer.Write(ctx, []byte(part)); err != nil {
			return err // FencedError: another worker writes it now
		}
		answer.WriteString(part)
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { // together, or not at all
		messages := []repo.NewMessage{{Role: repo.RoleAssistant, Content: answer.String()}}
		// Head: if the question was edited meanwhile, this is no answer to the new one.
		if _, err := tx.Sessions().AppendTurn(ctx, repo.Turn{SessionID: session, Head: &question, Messages: messages}); err != nil {
			return err
		}
		return tx.Streams().Finish(ctx, writer.Stream())
	})
}

// model yields the parts of an answer, and then the error, if there is one.
func model(err error, parts ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, part := range parts {
			if !yield(part, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}
