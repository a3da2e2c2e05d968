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
	"github.com/seed-df90f812/agentstore/repo"
)

// The parts of an answer are read while a model produces them. The whole answer is appended
// to the session. If the model breaks off, those who follow learn of it at once.
func Example_stream() {
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

	follow := func(key string) {
		for part, err := range store.Streams().Follow(ctx, key, repo.StreamPosition{}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("%q ", part.Data)
		}
		fmt.Println("finished")
	}
	fmt.Println(writeAnswer(ctx, store, session.ID, "first", model(nil, "Hel", "", "lo")))
	follow("first")
	fmt.Println(writeAnswer(ctx, store, session.ID, "second", model(errors.New("out of words"), "Hel")))
	follow("second")
	last, err := store.Sessions().LastMessages(ctx, session.ID, 10)
	fmt.Println(len(last), last[0].Content, err)
	// Output:
	// <nil>
	// "Hel" "lo" finished
	// out of words
	// "Hel" stream "second" failed
	// 1 Hello <nil>
}

func writeAnswer(ctx context.Context, store *agentstore.Store, session repo.ID, key string, model iter.Seq2[string, error]) (err error) {
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: key, Owner: "worker 1"})
	if err != nil {
		return err
	}
	writer := repo.NewPartWriter(ctx, store.Streams(), stream)
	defer func() {
		if err != nil { // those who follow learn of it now, not when the stream expires
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
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
			return err // StreamFencedError: somebody else writes it now
		}
		answer.WriteString(part)
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { // together, or not at all
		if _, err := tx.Sessions().Append(ctx, session, repo.NewMessage{Role: repo.RoleAssistant, Content: answer.String()}); err != nil {
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
