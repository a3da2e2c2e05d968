package live

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A browser that comes back to a conversation that was deleted, and made again under its key by
// another process, is told that it is gone, and gets none of the new one's messages.
func TestConversationMadeAgain(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	other := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "other"), agentstore.Options{})
	inMemory := memory.New()
	t.Cleanup(func() { _ = inMemory.Close() })
	for name, stores := range map[string][2]repo.Store{
		"memory": {inMemory, inMemory}, "PostgreSQL": {store, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := repo.SessionKey{Namespace: "chat", Key: "conversation"}
			ours, theirs := bykey.Of(stores[0].Sessions(), key), bykey.Of(stores[1].Sessions(), key)
			write := func(named bykey.Session, contents ...string) {
				t.Helper()
				for _, content := range contents {
					_, err := named.AppendOrCreate(t.Context(), repo.NewSession{}, repo.NewMessage{Role: repo.RoleUser, Content: content})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			handler, err := live.New(stores[0], live.Options{Authorize: func(r *http.Request) (live.Target, error) {
				session, err := ours.Get(r.Context())
				return live.Target{Session: session.ID}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(handler)
			t.Cleanup(func() {
				_ = handler.Shutdown(context.Background())
				server.Close()
			})
			read := func(last string, lines int) (status int, got []string) {
				t.Helper()
				r, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Last-Event-ID", last)
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				for scanner := bufio.NewScanner(response.Body); len(got) < lines && scanner.Scan(); {
					if line := scanner.Text(); strings.HasPrefix(line, "id: ") || strings.HasPrefix(line, "data: ") {
						got = append(got, line)
					}
				}
				return response.StatusCode, got
			}
			write(ours, "old 0", "old 1")
			_, got := read("", 6) // where it begins, and two messages
			if len(got) != 6 || !strings.Contains(got[5], "old 1") {
				t.Fatalf("got %q", got)
			}
			if _, err := theirs.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			write(theirs, "new 0", "new 1", "new 2")
			for _, id := range []string{got[0], got[2], got[4]} {
				status, answer := read(strings.TrimPrefix(id, "id: "), 10)
				if status != http.StatusOK || strings.Join(answer, " ") != `id: end data: {"reason":"gone"}` {
					t.Errorf("after %s: status %d, %q", id, status, answer)
				}
			}
			if _, got := read("", 8); !strings.Contains(strings.Join(got, " "), "new 0") || strings.Contains(strings.Join(got, " "), "old") {
				t.Errorf("from the begin: %q", got)
			}
		})
	}
}
