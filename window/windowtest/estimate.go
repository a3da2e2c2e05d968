package windowtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// counting counts the calls of Read.
type counting struct {
	repo.Sessions
	reads int
}

func (c *counting) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	c.reads++
	return c.Sessions.Read(ctx, read)
}

func (c *counting) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	c.reads++
	return c.Sessions.Message(ctx, sessionID, id)
}

// The question is found in few round trips behind many results that are the user's messages.
func testQuestionFar(t *testing.T, store repo.Store) {
	id, sessions := newSession(t, store), &counting{Sessions: store.Sessions()}
	messages := []repo.NewMessage{said(repo.RoleUser, "the question")}
	for i := range 450 {
		call := []byte(fmt.Sprint("call:", i))
		messages = append(messages, repo.NewMessage{Role: repo.RoleAssistant, Payload: call, Tokens: 10}, repo.NewMessage{Role: repo.RoleUser, Payload: call, Tokens: 10})
	}
	appendAll(t, store, id, messages...)
	w, err := window.Read(t.Context(), sessions, id, window.Options{Tokens: 100, Calls: namesOf})
	if err != nil || len(w.Messages) == 0 || w.Messages[0].Content != "the question" || sessions.reads > 20 {
		t.Errorf("%d messages after %d reads: %v", len(w.Messages), sessions.reads, err)
	}
}

// What the caller's Estimate says decides, and not what the store has counted, or would.
func testEstimate(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	for i := range 40 {
		message := repo.NewMessage{Role: repo.RoleUser, Content: strings.Repeat("word ", 200)}
		if i%2 == 0 {
			message.Tokens, message.Counter = 1000, "another"
		}
		appendAll(t, store, id, message)
	}
	for estimate, want := range map[int64]struct{ messages, reads int }{
		1: {40, 2}, 10: {40, 2}, 25: {40, 2}, 26: {39, 3}, 1000: {1, 1},
	} {
		sessions := &counting{Sessions: store.Sessions()}
		o := window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return estimate }}
		w, err := window.Read(t.Context(), sessions, id, o)
		if err != nil {
			t.Fatal(err)
		}
		n, cut := len(w.Messages), want.messages < 40
		if n > want.messages || n < want.messages/2 || w.Cut != cut || sessions.reads > want.reads {
			t.Errorf("at %d tokens each: %d messages in %d reads, cut: %t", estimate, n, sessions.reads, w.Cut)
		}
	}
	o := window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}
	added, err := window.Compact(t.Context(), store, id, o, func(context.Context, []repo.Message) (string, error) {
		return "", errors.New("it fits")
	})
	if added || err != nil {
		t.Errorf("%t, %v", added, err)
	}
}

// The bytes of a picture are not text.
func testPicture(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	add(t, store, id, 8)
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "what is this?", Payload: make([]byte, 1<<20)})
	o := window.Options{Tokens: 200_000, Estimate: func(m repo.Message) int64 {
		if len(m.Payload) > 0 {
			return 1500
		}
		return window.Estimate(m)
	}}
	if w := read(t, store, id, o); len(w.Messages) != 9 || w.Tokens != 1580 || w.Cut {
		t.Errorf("%d messages, %d tokens, cut: %t", len(w.Messages), w.Tokens, w.Cut)
	}
}

// Calls and Estimate, which may be slow, are asked once of each message.
func testAskedOnce(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	for i := range 60 {
		addStep(t, store, id, i)
	}
	asked := map[string]int{}
	o := window.Options{Tokens: 300, Pins: []repo.ID{all(t, store, id)[9].ID}}
	o.Calls = func(m repo.Message) []string {
		asked["calls of "+m.ID.String()]++
		return []string{m.CallID}[:min(1, len(m.CallID))]
	}
	o.Estimate = func(m repo.Message) int64 {
		asked["estimate of "+m.ID.String()]++
		return m.Tokens
	}
	read(t, store, id, o)
	for what, times := range asked {
		if times > 1 {
			t.Fatalf("%d times: the %s", times, what)
		}
	}
}
