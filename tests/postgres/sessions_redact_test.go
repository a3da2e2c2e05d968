package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

const spilled = "hunter2-spilled"

var redactedBy = repo.Cause{Actor: "ann", Reason: "a password"}

// spill appends a message that has the secret in all of its texts, by a turn that opens a stream which has it, too.
func spill(t *testing.T, store repo.Repositories, id repo.ID) repo.Message {
	t.Helper()
	added, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{
		SessionID: id, ID: "turn " + repo.NewID().String(), Open: &repo.NewStream{Key: id.String(), Owner: "w", TTL: time.Hour},
		Messages: []repo.NewMessage{{
			Role: repo.RoleUser, Content: spilled, Metadata: []byte(`{"x":"` + spilled + `"}`), Payload: []byte(spilled), Kind: spilled,
			Tokens: 1, Counter: spilled,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Streams().Append(t.Context(), *added.Stream, []byte(spilled), []byte(spilled)); err != nil {
		t.Fatal(err)
	}
	return added.Messages[0]
}

// spilledIn returns the tables that have the secret, or the digest of the turn which does.
func spilledIn(t *testing.T, store *agentstore.Store) (found []string) {
	t.Helper()
	for _, table := range tables.Names(t, store.Pool()) {
		var has bool
		err := store.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM `+table+` t WHERE position($1 IN row_to_json(t)::text) > 0
			OR position(encode(convert_to($1, 'UTF8'), 'hex') IN row_to_json(t)::text) > 0)`, pgx.QueryExecModeSimpleProtocol, spilled).Scan(&has)
		if err != nil {
			t.Fatal(err)
		}
		if has {
			found = append(found, table)
		}
	}
	var digests int
	if err := store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM session_turns WHERE digest <> decode(repeat('00', 32), 'hex')").Scan(&digests); err != nil {
		t.Fatal(err)
	}
	if digests > 0 {
		found = append(found, "session_turns.digest")
	}
	return found
}

// Guarantee: Deletion: No row of any table has what a redacted message said.
func TestRedactedIsNowhere(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx, s := t.Context(), store.Sessions()
	view := store.In("acme")
	session, err := view.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	m := spill(t, view, session.ID)
	fork, err := view.Sessions().Fork(ctx, session.ID, m.Sequence, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if found := spilledIn(t, store); !slices.Equal(found, []string{"messages", "stream_parts", "session_turns.digest"}) {
		t.Errorf("before, it is in %v", found)
	}
	if err := store.In("other").Sessions().Redact(ctx, session.ID, []int64{0}, redactedBy); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("from another view: %v", err)
	}
	// A transaction that is undone leaves all.
	undone := errors.New("undone")
	if err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if err := tx.Sessions().Redact(ctx, session.ID, []int64{0}, redactedBy); err != nil {
			return err
		}
		return undone
	}); !errors.Is(err, undone) || len(spilledIn(t, store)) != 3 {
		t.Errorf("undone: %v, and it is in %v", err, spilledIn(t, store))
	}
	if err := view.Sessions().Redact(ctx, fork.ID, []int64{0}, redactedBy); err != nil {
		t.Fatal(err)
	}
	if found := spilledIn(t, store); len(found) > 0 {
		t.Errorf("it is left in %v", found)
	}
	for _, id := range []repo.ID{session.ID, fork.ID} {
		all, err := s.LastMessages(ctx, id, 10)
		if err != nil || len(all) != 2 || all[0].Kind != repo.KindRedacted || all[1].Kind != repo.KindRedacted {
			t.Errorf("it has %+v, %v", all, err)
		}
	}
	var bytes int
	if err := store.Pool().QueryRow(ctx, "SELECT bytes FROM messages WHERE sequence = 0").Scan(&bytes); err != nil || bytes != len("erased{}") {
		t.Errorf("it has %d bytes, %v", bytes, err)
	}
	tables.Seal(t, store)
	if report, err := audit.Verify(ctx, store.AuditLog(), audit.VerifyOptions{}); err != nil || !report.Intact() {
		t.Errorf("the trail: %+v, %v", report, err)
	}
}

// A view does not redact what another namespace has, which the whole store has forked into it.
// Guarantee: Deletion: A view redacts no message of another namespace.
func TestRedactInAView(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx, s := t.Context(), store.Sessions()
	make := func(err error, session repo.Session) repo.ID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return session.ID
	}
	fork := func(of repo.ID, namespace string) repo.ID {
		made, err := s.Fork(ctx, of, 0, repo.NewSession{Namespace: namespace})
		return make(err, made)
	}
	theirs, err := s.Create(ctx, repo.NewSession{Namespace: "theirs"})
	parent := make(err, theirs)
	spill(t, store, parent)
	ours, second := fork(parent, "ours"), fork(parent, "theirs")
	refused := func() {
		t.Helper()
		err := store.In("ours").Sessions().Redact(ctx, ours, []int64{0}, redactedBy)
		if refused, is := errors.AsType[*repo.RefusedError](err); !is || refused.Kind != "session" {
			t.Errorf("got %v", err)
		}
	}
	refused()
	if _, err := s.Delete(ctx, parent); err != nil {
		t.Fatal(err)
	}
	refused() // it was theirs, and another fork has it
	if err := store.In("theirs").Sessions().Redact(ctx, second, []int64{0}, redactedBy); err != nil {
		t.Error(err)
	}
	if err := s.Redact(ctx, ours, []int64{0, 1}, redactedBy); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("what the fork does not have: %v", err)
	}
	if found := spilledIn(t, store); slices.Contains(found, "messages") { // the parts of the deleted session are swept
		t.Errorf("it is left in %v", found)
	}
}

// What an imported fork has of others is of the namespace into which it was imported, though it is of no session.
func TestRedactImportedInAView(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]repotest.Whole{"postgres": pgtest.NewStore(t, agentstore.Options{}), "memory": memory.New()} {
		t.Run(name, func(t *testing.T) {
			ctx, s := t.Context(), store.In("theirs").Sessions()
			id := func(session repo.Session, err error) repo.ID {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				return session.ID
			}
			parent := id(s.Create(ctx, repo.NewSession{}))
			spill(t, store.In("theirs"), parent)
			spill(t, store.In("theirs"), parent)
			fork := id(s.Fork(ctx, parent, 1, repo.NewSession{}))
			var document bytes.Buffer
			if err := s.Export(ctx, fork, &document); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Delete(ctx, fork); err != nil {
				t.Fatal(err)
			}
			imported := id(s.Import(ctx, &document, true))
			ours := id(store.(repo.Repositories).Sessions().Fork(ctx, imported, 1, repo.NewSession{Namespace: "ours"}))
			for range 2 {
				err := store.In("ours").Sessions().Redact(ctx, ours, []int64{0}, redactedBy)
				if refused, is := errors.AsType[*repo.RefusedError](err); !is || refused.Kind != "session" {
					t.Errorf("got %v", err)
				}
				if _, err := s.Delete(ctx, imported); err != nil && !errors.Is(err, repo.ErrNotFound) { // it was theirs
					t.Error(err)
				}
			}
		})
	}
}

// A redaction takes the digests of the turns that have one of its messages, up to the first and the last one of a turn.
func TestRedactedDigests(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx, s := t.Context(), store.Sessions()
	session, err := s.Create(ctx, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i, count := range []int{2, 0, 3, 1, 2, 2} { // 0 to 1, none, 2 to 4, 5, 6 to 7, 8 to 9
		turn := repo.Turn{SessionID: session.ID, ID: fmt.Sprint(i), State: []repo.StateChange{{Key: "k", Value: []byte("1")}}}
		for range count {
			turn.Messages = append(turn.Messages, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
		}
		if _, err := s.AppendTurn(ctx, turn); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		sequences []int64
		left      string
	}{{[]int64{3}, "0 1 3 4 5"}, {[]int64{3, 6, 1}, "1 3 5"}, {[]int64{9, 5}, "1"}} {
		if err := s.Redact(ctx, session.ID, step.sequences, redactedBy); err != nil {
			t.Fatal(err)
		}
		var left string
		if err := store.Pool().QueryRow(ctx, `SELECT string_agg(id, ' ' ORDER BY id) FROM session_turns
			WHERE digest <> decode(repeat('00', 32), 'hex')`).Scan(&left); err != nil || left != step.left {
			t.Errorf("after %v, %q have digests: %v", step.sequences, left, err)
		}
	}
}

// What a process has kept for two followers does not outlive a redaction by another process of which one of them learns.
func TestRedactedIsNotKept(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	writer, reader := process(t, databaseURL), process(t, databaseURL)
	ctx, s := t.Context(), writer.Sessions()
	session, err := s.Create(ctx, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(content string) {
		t.Helper()
		if _, err := s.Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	add(strings.Repeat("x", 2<<20)) // as much as a read has, so that who begins gets what follows it by another one, or of what is kept
	first := follow(t, reader, session.ID, 0)
	first.wants(t, 0)
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	for m, err := range reader.Sessions().Follow(leaving, session.ID, 0) {
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Sequence == 0:
			add(spilled)
			add("after")
			continue
		case m.Sequence == 1:
			continue
		}
		break
	}
	first.wants(t, 1, 2)
	if err := s.Redact(ctx, session.ID, []int64{1}, redactedBy); err != nil {
		t.Fatal(err)
	}
	first.wants(t, 3)
	next := follow(t, reader, session.ID, 0)
	next.wants(t, 0)
	if m := await.Value(t, "message 1", next.messages); m.Kind != repo.KindRedacted {
		t.Errorf("who begins to follow afterwards gets %+v", m)
	}
	next.wants(t, 2, 3)
}

// In a caller's transaction of a higher level, a redaction sees what is committed, or is aborted.
func TestRedactAtHigherLevels(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx := t.Context()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		session, err := store.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		spill(t, store, session.ID)
		redact := func(meanwhile func() error) error {
			return pgx.BeginTxFunc(ctx, store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "SELECT FROM messages LIMIT 1"); err != nil {
					return err
				}
				if err := meanwhile(); err != nil {
					t.Error(err)
				}
				return postgres.Bind(tx).Sessions().Redact(ctx, session.ID, []int64{0}, redactedBy)
			})
		}
		if err := redact(func() error {
			_, err := store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "meanwhile"})
			return err
		}); !errors.Is(err, repo.ErrContention) {
			t.Errorf("%s, beside an append: %v", level, err)
		}
		if err := redact(func() error { return nil }); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		if err := redact(func() error { return nil }); err != nil {
			t.Errorf("%s, again: %v", level, err)
		}
	}
	if found := spilledIn(t, store); len(found) > 0 {
		t.Errorf("it is left in %v", found)
	}
}
