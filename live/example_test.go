package live_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// logins knows the user of a request.
type logins interface {
	User(r *http.Request) (name string, err error)
}

func newFeed(store repo.Store, logins logins) (*live.Handler, error) {
	return live.New(store, live.Options{Authorize: func(r *http.Request) (live.Target, error) {
		user, err := logins.User(r)
		if err != nil {
			return live.Target{}, &live.StatusError{Status: http.StatusUnauthorized, Err: err}
		}
		id, err := store.Sessions().Find(r.Context(), repo.SessionKey{Namespace: user, Key: r.PathValue("id")})
		return live.Target{Session: id, Reader: user}, err
	}})
}

// The function of docs/live.md keeps users apart.
func TestDocumentedFeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, nil)
	session, err := w.store.Sessions().Create(t.Context(), repo.NewSession{Namespace: "ann", Key: "trip"})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := newFeed(w.store, nameOf{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /conversations/{id}/events", feed)
	for user, status := range map[string]int{"": http.StatusUnauthorized, "bob": http.StatusNotFound, "ann": http.StatusOK} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/conversations/trip/events", nil)
		r.Header.Set("User", user)
		if mux.ServeHTTP(answer, r); answer.Code != status {
			t.Errorf("%q: status %d, want %d", user, answer.Code, status)
		}
	}
	if _, err := w.store.Sessions().Delete(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/conversations/trip/events?after="+session.ID.String(), nil)
	r.Header.Set("User", "ann")
	if mux.ServeHTTP(answer, r); !strings.Contains(answer.Body.String(), "event: end") {
		t.Errorf("after the deletion: %d, %q", answer.Code, answer.Body)
	}
}

// nameOf trusts a header.
type nameOf struct{}

func (nameOf) User(r *http.Request) (string, error) {
	if name := r.Header.Get("User"); name != "" {
		return name, nil
	}
	return "", http.ErrNoCookie
}

// A session is read over HTTP by a client that already has its first message, until it is
// deleted.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer func() { _ = store.Close() }()
	session, err := store.Sessions().Create(ctx, repo.NewSession{Owner: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = store.Sessions().Append(ctx, session.ID,
		repo.NewMessage{Role: repo.RoleSystem, Content: "You answer briefly."},
		repo.NewMessage{Role: repo.RoleUser, Content: "Hello?"},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "Yes."})
	if err != nil {
		log.Fatal(err)
	}

	events, err := live.New(store, live.Options{
		// A real one looks at the request: who is it, and what may they read?
		Authorize: func(*http.Request) (live.Target, error) {
			return live.Target{Session: session.ID, Reader: session.Owner}, nil
		},
		Message: func(_ context.Context, m repo.Message) (live.Event, error) {
			if m.Role == repo.RoleSystem {
				return live.Event{}, nil // not for readers
			}
			return live.Event{Name: string(m.Role), Data: []byte(m.Content)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(events)
	defer server.Close()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Last-Event-ID", session.ID.String()+".0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := strings.ReplaceAll(lines.Text(), session.ID.String(), "ID")
		if line != "" && !strings.HasPrefix(line, "retry:") && !strings.HasPrefix(line, ":") {
			fmt.Println(line)
		}
		if line == "data: Yes." { // it ends with the session
			if _, err := store.Sessions().Delete(ctx, session.ID); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// id: ID.0
	// event: begin
	// data: {"messages":3}
	// id: ID.1
	// event: user
	// data: Hello?
	// id: ID.2
	// event: assistant
	// data: Yes.
	// id: end
	// event: end
	// data: {"reason":"deleted"}
}
