package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// trigger makes one that runs before each insert into a table.
func trigger(t *testing.T, databaseURL, table, body string) {
	t.Helper()
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "CREATE FUNCTION owners_"+table+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+" RETURN NEW; END $$;"+
		"CREATE TRIGGER owners BEFORE INSERT ON "+table+" FOR EACH ROW EXECUTE FUNCTION owners_"+table+"()")
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if refused, ok := errors.AsType[*repo.RefusedError](err); !ok || refused.Kind != "database" || !errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("%s: %v, want a RefusedError", what, err)
	}
}

// A trigger that leaves out the change of a counter makes the append an error, which has stored nothing.
func TestCounterThatATriggerLeavesOut(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "CREATE FUNCTION owners() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN CASE WHEN NEW.next_sequence < 3 THEN NEW END; END';"+
		"CREATE TRIGGER owners BEFORE UPDATE ON session_counters FOR EACH ROW EXECUTE FUNCTION owners()")
	for _, messages := range [][]repo.NewMessage{{user("0"), user("1")}, {user("2"), user("3")}, {user("2")}} {
		_, err := store.Sessions().Append(t.Context(), id, messages...)
		if messages[0].Content == "0" {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		wantRefused(t, fmt.Sprint(len(messages), " messages"), err)
		wantRefused(t, fmt.Sprint(len(messages), " messages in InTx"), store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, id, messages...)
			return err
		}))
	}
	wantMessages(t, store, id, 2)
	if _, err := store.Sessions().Append(t.Context(), other, user("0"), user("1")); err != nil {
		t.Error(err)
	}
}

// A trigger of the owner's that leaves a row out makes each way to append it an error, which has
// stored nothing, and no other append is affected.
//
// Guarantee: Messages: Rows that a trigger leaves out make an error.
func TestRowsThatATriggerLeavesOut(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	const skip = "IF NEW.content LIKE '%skip%' THEN RETURN NULL; END IF;"
	trigger(t, databaseURL, "messages", skip)
	trigger(t, databaseURL, "stream_parts", "IF NEW.data = 'skip'::bytea THEN RETURN NULL; END IF;")
	trigger(t, databaseURL, "session_turns", "IF NEW.id = 'skip' THEN RETURN NULL; END IF;")
	trigger(t, databaseURL, "session_usages", "IF NEW.input_tokens = 99 THEN RETURN NULL; END IF;")
	trigger(t, databaseURL, "state_values", "IF NEW.key = 'skip' THEN RETURN NULL; END IF;")
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	ctx, s := t.Context(), store.Sessions()
	message := func(content string) repo.NewMessage { return repo.NewMessage{Role: repo.RoleUser, Content: content} }
	good, bad := message("x"), message("skip")
	id, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	usage := func(tokens int64) *repo.NewUsage { return &repo.NewUsage{InputTokens: tokens} }
	created := repo.NewID()
	turn := func(s repo.Sessions, id repo.ID, turn repo.Turn) error {
		turn.SessionID = id
		_, err := s.AppendTurn(ctx, turn)
		return err
	}
	ways := map[string]func(s repo.Sessions) error{
		"one":  func(s repo.Sessions) error { _, err := s.Append(ctx, id, bad); return err },
		"many": func(s repo.Sessions) error { _, err := s.Append(ctx, id, good, bad, good); return err },
		"at": func(s repo.Sessions) error {
			return turn(s, id, repo.Turn{Messages: []repo.NewMessage{bad}, Expected: new(int64)})
		},
		"with an id": func(s repo.Sessions) error {
			_, err := s.Append(ctx, id, repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "skip"})
			return err
		},
		"turn": func(s repo.Sessions) error {
			return turn(s, id, repo.Turn{Messages: []repo.NewMessage{good, bad}, Usage: usage(1)})
		},
		"a turn's session": func(s repo.Sessions) error {
			return turn(s, created, repo.Turn{Create: &repo.NewSession{}, Messages: []repo.NewMessage{bad}})
		},
		"a turn's id": func(s repo.Sessions) error {
			return turn(s, id, repo.Turn{ID: "skip", Messages: []repo.NewMessage{good}})
		},
		"a turn's usage": func(s repo.Sessions) error {
			return turn(s, id, repo.Turn{Messages: []repo.NewMessage{good}, Usage: usage(99)})
		},
		"a turn's state": func(s repo.Sessions) error {
			return turn(s, id, repo.Turn{Messages: []repo.NewMessage{good}, State: []repo.StateChange{{Key: "skip", Value: json.RawMessage(`1`)}}})
		},
	}
	for name, way := range ways {
		wantRefused(t, name, way(s))
		wantRefused(t, name+" in InTx", store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error { return way(tx.Sessions()) }))
	}
	if _, err := s.Get(ctx, created); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the turn's session: %v", err)
	}
	for _, id := range []repo.ID{id, other} {
		if session, err := s.Get(ctx, id); err != nil || session.MessageCount != 0 || session.Usage != (repo.Usage{}) {
			t.Errorf("the session is %+v, %v", session, err)
		}
	}

	// In groups with others, which are stored without a gap.
	var all sync.WaitGroup
	const each = 20
	for writer := range 8 {
		all.Go(func() {
			for i := range each {
				var err error
				if writer%4 == 0 {
					if _, err = s.Append(ctx, id, bad); errors.Is(err, repo.ErrConflict) {
						continue
					}
					t.Errorf("a bad one: %v", err)
				}
				if i%2 == 0 {
					_, err = s.Append(ctx, id, good)
				} else {
					err = turn(s, id, repo.Turn{Messages: []repo.NewMessage{good}, Usage: usage(1)})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if messages, err := s.MessagesFrom(ctx, id, 0, 1000); err != nil || len(messages) != 6*each {
		t.Errorf("%d messages, %v", len(messages), err)
	}

	// A document whose message is left out.
	var document bytes.Buffer
	if err := s.Export(ctx, id, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	trigger(t, databaseURL, "session_counters", "")
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "CREATE OR REPLACE FUNCTION owners_messages() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.sequence = 3 THEN RETURN NULL; END IF; RETURN NEW; END $$")
	if _, err := s.Import(ctx, &document, true); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("Import: %v", err)
	}
	if _, err := s.Get(ctx, id); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("after the import: %v", err)
	}

	// Parts of a stream.
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: "k", Owner: "o", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Streams().Append(ctx, stream, []byte("a"), []byte("skip"))
	wantRefused(t, "parts", err)
	wantRefused(t, "parts in InTx", store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error {
		_, err := tx.Streams().Append(ctx, stream, []byte("skip"))
		return err
	}))
	if _, err := store.Streams().Append(ctx, stream, []byte("a")); err != nil {
		t.Errorf("another part: %v", err)
	}
}

// What a trigger of the owner's says is in no error's text, and is a refusal, which is not tried
// again.
//
// Guarantee: Servers and roles: What a trigger says is in no error.
func TestWhatATriggerSays(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	trigger(t, databaseURL, "messages", "EXECUTE NEW.kind USING NEW.content;")
	const hidden = "hidden-text"
	raise := func(code string) string {
		return "DO $b$ BEGIN RAISE EXCEPTION '" + hidden + "' USING ERRCODE = '" + code + "', DETAIL = '" + hidden + "', HINT = '" + hidden + "'; END $b$"
	}
	for name, test := range map[string]struct {
		rule string
		want error
	}{
		"raise":         {raise("P0001"), repo.ErrConflict},
		"no data":       {raise("P0002"), repo.ErrConflict},
		"too many rows": {raise("P0003"), repo.ErrConflict},
		"assert":        {"DO $b$ BEGIN ASSERT false, '" + hidden + "'; END $b$", repo.ErrConflict},
		"its own":       {raise("AB123"), repo.ErrConflict},
		"ours":          {raise("ZAS02"), repo.ErrConflict},
		"not supported": {raise("0A000"), repo.ErrConflict},
		"internal":      {raise("XX000"), repo.ErrConflict},
		"connection":    {raise("08006"), repo.ErrConflict},
		"read-only":     {raise("25006"), repo.ErrConflict},
		"a check":       {raise("23514"), repo.ErrInvalid},
		"a value":       {raise("22001"), repo.ErrInvalid},
		"no right":      {raise("42501"), repo.ErrConflict},
		"try again":     {raise("40001"), repo.ErrContention},
		"no room":       {raise("53100"), repo.ErrUnavailable},
		"a cast":        {"SELECT ($1 || '" + hidden + "')::bigint", repo.ErrInvalid},
		"a statement":   {"SELEC " + hidden, repo.ErrConflict},
		"a function":    {`SELECT "` + hidden + `"()`, repo.ErrConflict},
		"its table":     {`SELECT FROM "` + hidden + `"`, repo.ErrSchema},
		"division":      {"SELECT 1/0", repo.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Each has a pool of its own: an error that may pass is that of a whole group.
			store := process(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 2 })
			id := pgtest.NewSession(t, store)
			bad := repo.NewMessage{Role: repo.RoleUser, Content: hidden, Kind: test.rule}
			if len(bad.Kind) > repo.MaxNameBytes {
				t.Fatalf("the rule has %d bytes", len(bad.Kind))
			}
			ways := map[string]error{}
			_, ways["append"] = store.Sessions().Append(t.Context(), id, bad)
			_, ways["turn"] = store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{bad}, Usage: &repo.NewUsage{}})
			ways["InTx"] = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, id, bad)
				return err
			})
			for way, err := range ways {
				if !errors.Is(err, test.want) {
					t.Errorf("%s: %v, want %v", way, err, test.want)
				}
				pgErr, ok := errors.AsType[*pgconn.PgError](err)
				if !ok {
					t.Fatalf("%s: %v has no error of the database", way, err)
				}
				for _, text := range []string{err.Error(), pgErr.Error(), pgErr.Message, pgErr.Detail, pgErr.Hint, pgErr.Where, pgErr.InternalQuery} {
					if strings.Contains(text, "hidden") {
						t.Errorf("%s: %s", way, text)
					}
				}
			}
		})
	}
}
