package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// hidden is used as each password, content, payload and metadata. No error and no log
// line may contain it.
const hidden = "hunter2-8c1f"

// discreet checks an error, all errors that it wraps, and all ways to print them.
func discreet(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for queue := []error{err}; len(queue) > 0; queue = queue[1:] {
		for _, text := range []string{queue[0].Error(), fmt.Sprintf("%+v", queue[0]), fmt.Sprintf("%#v", queue[0])} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s: %T contains the secret: %s", what, queue[0], text)
			}
		}
		switch wrapped := queue[0].(type) { //nolint:errorlint // walks the tree of errors
		case interface{ Unwrap() error }:
			if inner := wrapped.Unwrap(); inner != nil {
				queue = append(queue, inner)
			}
		case interface{ Unwrap() []error }:
			queue = append(queue, wrapped.Unwrap()...)
		}
	}
}

// Guarantee: Faults: No error contains a password.
func TestErrorsOfOpenHoldNoPassword(t *testing.T) {
	t.Parallel()
	good, err := url.Parse(pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*url.URL)) string {
		changed := *good
		changed.User = url.UserPassword("postgres", hidden)
		change(&changed)
		return changed.String()
	}
	for what, databaseURL := range map[string]string{
		"a wrong password":      with(func(u *url.URL) { u.User = url.UserPassword("nobody-"+repo.NewID().String(), hidden) }),
		"an unreachable server": with(func(u *url.URL) { u.Host = "127.0.0.1:1" }),
		"an unknown host":       with(func(u *url.URL) { u.Host = "no-such-host.invalid:5432" }),
		"an unknown database":   with(func(u *url.URL) { u.Path = "/no-such-database" }),
		"an unknown scheme":     with(func(u *url.URL) { u.Scheme = "mysql" }),
		"a malformed port":      "postgres://postgres:" + hidden + "@localhost:port/db",
		"a malformed parameter": "postgres://postgres:" + hidden + "@localhost/db?pool_max_conns=many",
		"a malformed escape":    "postgres://postgres:" + hidden + "%zz@localhost/db",
		"key=value":             "host=127.0.0.1 port=1 user=postgres password=" + hidden,
		"malformed key=value":   "host=127.0.0.1 port=x password=" + hidden,
		"no URL at all":         hidden,
	} {
		store, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{})
		if err == nil && what == "a wrong password" { // a server that trusts every client
			_ = store.Close()
			continue
		}
		discreet(t, what, err)
	}
}

// buffer is the output of a log. It is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// Guarantee: Faults: No error, log line or trace contains a message's content.
func TestErrorsHoldNoContent(t *testing.T) {
	t.Parallel()
	var log buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := pgtest.NewStore(t, agentstore.Options{Logger: logger, MaxConns: 4})
	ctx, sessions := t.Context(), store.Sessions()
	metadata := json.RawMessage(`{"` + hidden + `":"` + hidden + `"}`)
	budget := repo.Cost(1)
	given := repo.NewSession{ID: repo.NewID(), Namespace: hidden, Actor: hidden, AutomationProfile: hidden, Metadata: metadata, Budget: &budget}
	if _, err := sessions.Create(ctx, given); err != nil {
		t.Fatal(err)
	}
	message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: hidden, Metadata: metadata, Payload: []byte(hidden)}
	if _, err := sessions.Append(ctx, given.ID, message); err != nil {
		t.Fatal(err)
	}
	other := given
	other.Actor += "x"
	_, err := sessions.Create(ctx, other)
	discreet(t, "another session", err)
	changed := message
	changed.Content += "x"
	_, err = sessions.Append(ctx, given.ID, changed)
	discreet(t, "another message", err)
	_, err = appendAt(ctx, sessions, given.ID, 7, repo.NewMessage{Role: repo.RoleUser, Content: hidden})
	discreet(t, "another sequence", err)
	_, err = sessions.AddUsage(ctx, given.ID, repo.NewUsage{Cost: 2})
	discreet(t, "past the budget", err)
	for what, bad := range map[string]repo.NewMessage{
		"role":     {Role: hidden, Content: hidden},
		"content":  {Role: repo.RoleUser, Content: hidden + "\x00"},
		"metadata": {Role: repo.RoleUser, Content: hidden, Metadata: json.RawMessage(`{"` + hidden + `"`)},
	} {
		_, err := sessions.Append(ctx, given.ID, bad)
		discreet(t, what, err)
	}
	var document bytes.Buffer
	if err := sessions.Export(ctx, given.ID, &document); err != nil {
		t.Fatal(err)
	}
	_, err = sessions.Import(ctx, bytes.NewReader(document.Bytes()), true)
	discreet(t, "a session that is there", err)
	_, err = sessions.Import(ctx, strings.NewReader(strings.Replace(document.String(), hidden, hidden+"x", 1)), true)
	discreet(t, "a document that was changed", err)

	// The database quotes what it refuses; the store's error does not. A trigger
	// stands for a rule that is not the library's.
	for what, rule := range map[string]string{
		"a rule of the database": "RAISE EXCEPTION 'refused' USING ERRCODE = '23514', DETAIL = NEW.content, HINT = NEW.content",
		"a cast of the database": "PERFORM NEW.content::bigint",
	} {
		pgtest.Exec(t, store.Pool(), "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+rule+"; END $$")
		pgtest.Exec(t, store.Pool(), "DROP TRIGGER IF EXISTS refuse ON messages")
		pgtest.Exec(t, store.Pool(), "CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()")
		_, err = sessions.Append(ctx, given.ID, repo.NewMessage{Role: repo.RoleUser, Content: hidden})
		discreet(t, what, err)
		if !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}

	definition := repo.ActionDefinition{
		Reusable: true, DefinitionOfDone: "{{.a}}",
		Arguments: []repo.Argument{{Name: "a", Type: repo.ArgumentString, Required: true, Pattern: "^[0-9]$"}},
	}
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: definition}); err != nil {
		t.Fatal(err)
	}
	_, err = store.Plans().Use(ctx, "a", repo.UseAction{Arguments: []repo.ArgumentValue{{Name: "a", Value: json.RawMessage(`"` + hidden + `"`)}}})
	discreet(t, "an argument", err)
	discreet(t, "an entry", store.Audit().Record(ctx, repo.AuditEntry{Type: events.AuthFailure, Details: json.RawMessage(`["` + hidden + `"]`)}))
	writer, err := audit.NewWriter(store.AuditLog(), audit.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.RecordWait(ctx, repo.AuditEntry{Type: events.AuthFailure, Details: json.RawMessage(`{"password":"` + hidden + `"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := store.Audit().List(ctx, repo.AuditFilter{Type: events.AuthFailure}, repo.Page{})
	if err != nil || len(page.Items) != 1 || strings.Contains(string(page.Items[0].Details), hidden) {
		t.Errorf("recorded %d entries, %v, with the password", len(page.Items), err)
	}
	if text := log.String(); strings.Contains(text, hidden) {
		t.Errorf("the log contains the secret: %s", text)
	}
}
