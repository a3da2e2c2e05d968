package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// failing lets every statement that has a text in it fail on the way to the
// server.
type failing struct{ text string }

func (f failing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, f.text) {
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (failing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Who finds a message or a session stored, and cannot read it, must not say that
// nothing was written: an earlier attempt of the same call may have written it.
func TestStoredButUnread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query string
		write func(ctx context.Context, sessions repo.Sessions, id repo.ID) error
	}{
		{"MessageListByIDs", func(ctx context.Context, sessions repo.Sessions, id repo.ID) error {
			if _, err := sessions.Create(ctx, repo.NewSession{ID: id}); err != nil {
				return err
			}
			message := user("once")
			message.ID = id
			_, err := sessions.Append(ctx, id, message)
			return err
		}},
		{"SessionGet", func(ctx context.Context, sessions repo.Sessions, id repo.ID) error {
			_, err := sessions.Create(ctx, repo.NewSession{ID: id})
			return err
		}},
	} {
		t.Run(test.query, func(t *testing.T) {
			t.Parallel()
			databaseURL, id := pgtest.NewDatabase(t), repo.NewID()
			// The second time the id is known, and the look at it fails. The session of
			// the first case is there by then, too.
			first := openURL(t, databaseURL, agentstore.Options{})
			if err := test.write(t.Context(), first.Sessions(), id); err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			again := openURL(t, databaseURL, agentstore.Options{Tracer: failing{"name: " + test.query + " "}})
			if err := test.write(t.Context(), again.Sessions(), id); !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Fatalf("%v, want %v", err, repo.ErrUnknownOutcome)
			}
		})
	}
}

// Opening a store on a server that goes away in the middle is ErrUnavailable.
func TestOpenInterrupted(t *testing.T) {
	t.Parallel()
	_, err := agentstore.Open(t.Context(), pgtest.NewDatabase(t), agentstore.Options{Tracer: failing{"to_regclass"}})
	if !errors.Is(err, repo.ErrUnavailable) {
		t.Fatalf("%v, want %v", err, repo.ErrUnavailable)
	}
}
