package repotest

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// The steps of the tests. A step that fails ends the test.

func createAs(t *testing.T, s repo.Sessions, session repo.NewSession) repo.Session {
	t.Helper()
	created, err := s.Create(t.Context(), session)
	created.Existed = false
	return must(t, created, err)
}

func create(t *testing.T, s repo.Sessions) repo.ID {
	t.Helper()
	return createAs(t, s, repo.NewSession{}).ID
}

func get(t *testing.T, s repo.Sessions, id repo.ID) repo.Session {
	t.Helper()
	session, err := s.Get(t.Context(), id)
	return must(t, session, err)
}

func appendTo(t *testing.T, s repo.Sessions, id repo.ID, messages ...repo.NewMessage) []repo.Message {
	t.Helper()
	stored, err := s.Append(t.Context(), id, messages...)
	return must(t, stored, err)
}

// stocked creates a session with a value in every field, and two messages like fullMessage.
func stocked(t *testing.T, r repo.Repositories) (repo.ID, []repo.Message) {
	t.Helper()
	given := fullSession(r)
	createAs(t, r.Sessions(), given)
	return given.ID, appendTo(t, r.Sessions(), given.ID, fullMessage(), fullMessage())
}

func readAll(t *testing.T, s repo.Sessions, id repo.ID) []repo.Message {
	t.Helper()
	messages, err := collect(s.Messages(t.Context(), id, 0))
	return must(t, messages, err)
}

// whole reads a session with all its messages.
func whole(t *testing.T, r repo.Repositories, id repo.ID) any {
	t.Helper()
	return []any{get(t, r.Sessions(), id), readAll(t, r.Sessions(), id)}
}

func must[V any](t *testing.T, value V, err error) V {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func user(content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: content}
}

func users(count int) []repo.NewMessage {
	messages := make([]repo.NewMessage, count)
	for i := range messages {
		messages[i] = user(strconv.Itoa(i))
	}
	return messages
}

func withIDs(messages []repo.NewMessage) []repo.NewMessage {
	for i := range messages {
		messages[i].ID = repo.NewID()
	}
	return messages
}

// randomName returns a unique name.
func randomName() string { return "test-" + repo.NewID().String() }

// spaced is a store, or sessions, of one namespace: see Views.
type spaced interface{ Space() string }

// spaceOf returns a namespace in which nothing is yet.
func spaceOf(of any) string {
	if v, is := of.(spaced); is {
		return v.Space()
	}
	return randomName()
}

// tick waits until the clock has advanced by at least a microsecond.
func tick() {
	for now := time.Now().UnixMicro(); time.Now().UnixMicro() <= now; {
		time.Sleep(time.Microsecond) // pace: the clock is looked at again
	}
}

// meeting returns what waits, in naive ways, until two have called it: so both have read before either writes.
func meeting(t *testing.T) func() {
	t.Helper()
	var calls atomic.Int64
	met := make(chan struct{})
	return func() {
		if calls.Add(1) == 2 {
			close(met)
		}
		await.Value(t, "two read", met)
	}
}

// passes waits until d has passed.
func passes(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	await.For(t, d.String()+" pass", func() bool { return time.Now().After(end) })
}

func ptr[V any](value V) *V { return &value }
