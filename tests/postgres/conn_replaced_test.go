package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
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

// If a session is deleted during its export, the export ends with an error, also if another is
// made under its key meanwhile.
// Guarantee: Memory: An export of a session that is deleted meanwhile fails.
func TestExportOfReplacedSession(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), pgtest.NewStore(t, agentstore.Options{})
	sessions := store.Sessions()
	key := repo.SessionKey{Key: "k"}
	made := func(content string) repo.ID {
		t.Helper()
		for range 4 {
			batch := make([]repo.NewMessage, 100)
			for i := range batch {
				batch[i] = user(strings.Repeat(content, 500))
			}
			if _, err := bykey.Of(sessions, key).AppendOrCreate(ctx, repo.NewSession{}, batch...); err != nil {
				t.Fatal(err)
			}
		}
		id, err := sessions.Find(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, replaces := range []bool{false, true} {
		id := made("old ")
		var document replacing
		document.once = func() {
			if !replaces {
				return
			}
			if _, err := sessions.Delete(ctx, id); err != nil {
				t.Fatal(err)
			}
			made("new ")
		}
		err := sessions.Export(ctx, id, &document)
		if errors.Is(err, repo.ErrNotFound) != replaces || strings.Contains(document.String(), "new ") {
			t.Errorf("replaced: %t; %v", replaces, err)
		}
	}
}

// beforeEach calls a function before each statement and batch is sent.
type beforeEach struct{ run func() }

func (b *beforeEach) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	b.run()
	return ctx
}

func (*beforeEach) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (b *beforeEach) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	b.run()
	return ctx
}

func (*beforeEach) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*beforeEach) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// exportDuring exports a session, on the pool and in a transaction, and calls meanwhile before
// each statement that the export sends.
func exportDuring(t *testing.T, databaseURL string, id repo.ID, meanwhile func(), check func(document []byte, err error)) {
	t.Helper()
	during := false
	tracer := &beforeEach{func() {
		if during {
			meanwhile()
		}
	}}
	traced := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{MaxConns: 1, Tracer: tracer})
	export := func(s repo.Sessions) {
		var document bytes.Buffer
		during = true
		err := s.Export(t.Context(), id, &document)
		during = false
		check(document.Bytes(), err)
	}
	export(traced.Sessions())
	err := traced.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		export(tx.Sessions())
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// exported is what these tests read of a document.
type exported struct {
	Session struct {
		Metadata json.RawMessage
		Usage    struct {
			InputTokens int64 `json:"input_tokens"`
		}
		UpdatedAt time.Time `json:"updated_at"`
	}
	Messages []struct {
		Content   string
		CreatedAt time.Time `json:"created_at"`
	}
	State struct {
		Values []struct{ Value json.RawMessage }
	}
}

func exportedOf(t *testing.T, document []byte) (e exported) {
	t.Helper()
	if err := json.Unmarshal(document, &e); err != nil || len(e.State.Values) != 1 {
		t.Fatalf("%v in %s", err, document)
	}
	return e
}

// An export has all of a turn or nothing.
func TestExportDuringTurns(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	turn := repo.Turn{
		Messages: []repo.NewMessage{user("x")}, State: []repo.StateChange{{Key: "n", Op: repo.StateIncrement, By: 1}},
		Usage: &repo.NewUsage{InputTokens: 1},
	}
	another := func() {
		if _, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn)); err != nil {
			t.Error(err)
		}
	}
	exportDuring(t, databaseURL, id, another, func(document []byte, err error) {
		if err != nil {
			t.Error(err)
			return
		}
		e := exportedOf(t, document)
		n := int64(len(e.Messages))
		if n == 0 || e.Session.Usage.InputTokens != n || string(e.State.Values[0].Value) != strconv.FormatInt(n, 10) ||
			e.Session.UpdatedAt.Before(e.Messages[n-1].CreatedAt) {
			t.Errorf("%d messages: %s", n, document)
		}
	})
}

// A document does not have the state of a session and the rest of what was restored in its place,
// with all its times.
func TestExportDuringImports(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	sessions, id := store.Sessions(), pgtest.NewSession(t, store)
	var documents [2][]byte
	for i := range documents {
		name := strconv.Itoa(i)
		var document bytes.Buffer
		_, err := sessions.Update(t.Context(), id, repo.SessionUpdate{Metadata: json.RawMessage(`{"is":` + name + `}`)})
		if err == nil {
			_, err = store.State().Change(t.Context(), []repo.StateChange{{
				Scope: repo.Scope{SessionID: id}, Key: "is", Value: json.RawMessage(name),
			}})
		}
		if err == nil {
			err = sessions.Export(t.Context(), id, &document)
		}
		if err != nil {
			t.Fatal(err)
		}
		documents[i] = document.Bytes()
	}
	stored := 1
	replace := func() {
		stored = 1 - stored
		if _, err := sessions.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := sessions.Import(t.Context(), bytes.NewReader(documents[stored]), true); err != nil {
			t.Error(err)
		}
	}
	exportDuring(t, databaseURL, id, replace, func(document []byte, err error) {
		if err != nil {
			t.Error(err)
			return
		}
		if e := exportedOf(t, document); string(e.Session.Metadata) != `{"is":`+string(e.State.Values[0].Value)+`}` {
			t.Errorf("%s", document)
		}
	})
}
