package postgres

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// replacing is a writer that calls a function before its first Write.
type replacing struct {
	bytes.Buffer
	once func()
}

func (w *replacing) Write(p []byte) (int, error) {
	if w.once != nil {
		w.once()
		w.once = nil
	}
	return w.Buffer.Write(p)
}

// If a session is deleted during its export, and another is created with its id, they
// are not mixed in one document: the export ends with an error, as if no other had
// been created.
func TestExportOfReplacedSession(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), pgtest.NewStore(t, agentstore.Options{})
	sessions := store.Sessions()
	fill := func(id repo.ID, content string) {
		t.Helper()
		for range 4 {
			batch := make([]repo.NewMessage, 100)
			for i := range batch {
				batch[i] = user(strings.Repeat(content, 500))
			}
			if _, err := sessions.Append(ctx, id, batch...); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(id repo.ID) {
		t.Helper()
		if _, err := sessions.Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	for name, replace := range map[string]func(id repo.ID){
		"made": func(id repo.ID) {
			remove(id)
			if _, err := sessions.Create(ctx, repo.NewSession{ID: id}); err != nil {
				t.Fatal(err)
			}
			fill(id, "new ")
		},
		"imported": func(id repo.ID) {
			other, err := agentstore.Open(ctx, "memory://"+id.String(), agentstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			if _, err := other.Sessions().Create(ctx, repo.NewSession{ID: id}); err != nil {
				t.Fatal(err)
			}
			for i := range 400 {
				if _, err := other.Sessions().Append(ctx, id, user("new ")); err != nil {
					t.Fatal(i, err)
				}
			}
			var document bytes.Buffer
			if err := other.Sessions().Export(ctx, id, &document); err != nil {
				t.Fatal(err)
			}
			remove(id)
			if _, err := sessions.Import(ctx, &document); err != nil {
				t.Fatal(err)
			}
		},
		"emptied": func(id repo.ID) {
			remove(id)
			if _, err := sessions.Create(ctx, repo.NewSession{ID: id}); err != nil {
				t.Fatal(err)
			}
		},
		"not at all": func(repo.ID) {},
	} {
		session, err := sessions.Create(ctx, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		fill(session.ID, "old ")
		var document replacing
		document.once = func() { replace(session.ID) }
		err = sessions.Export(ctx, session.ID, &document)
		if name == "not at all" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("%s: %v; of the old one's messages are there %t, of the new one's %t", name, err,
				strings.Contains(document.String(), "old "), strings.Contains(document.String(), "new "))
		}
	}
}
