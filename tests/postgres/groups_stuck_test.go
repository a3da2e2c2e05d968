package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A write that is stuck at the server, here in a trigger of the owner's, delays no other of its kind.
// (TestStuckGroup has what it would be with one group.)
func TestStuckGroupStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			conn := pgtest.NewPool(t, databaseURL)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
			ctx := t.Context()
			// A write of "stuck" waits for an advisory lock.
			for _, trigger := range []string{
				"BEFORE INSERT ON messages FOR EACH ROW WHEN (NEW.content = 'stuck')",
				"BEFORE INSERT ON stream_parts FOR EACH ROW WHEN (NEW.data = 'stuck')",
				"BEFORE INSERT ON plan_claims FOR EACH ROW WHEN (NEW.owner = 'stuck')",
				"BEFORE INSERT ON plan_history FOR EACH ROW WHEN (NEW.reason = 'stuck')",
			} {
				pgtest.Exec(t, conn, `CREATE OR REPLACE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS
					$$BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END$$`)
				pgtest.Exec(t, conn, "CREATE TRIGGER stuck "+trigger+" EXECUTE FUNCTION stuck()")
			}
			name := "act"
			if _, err := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
				t.Fatal(err)
			}
			use := func() repo.ID {
				plan, err := store.Plans().Use(ctx, name, repo.UseAction{})
				if err != nil {
					t.Fatal(err)
				}
				return plan.ID
			}
			for kind, prepare := range map[string]func(text string) func(ctx context.Context) error{
				"append": func(text string) func(ctx context.Context) error {
					id := pgtest.NewSession(t, store)
					return func(ctx context.Context) error {
						_, err := store.Sessions().Append(ctx, id, user(text))
						return err
					}
				},
				"parts": func(text string) func(ctx context.Context) error {
					stream := openStream(t, store, repo.NewID().String())
					return func(ctx context.Context) error {
						_, err := store.Streams().Append(ctx, stream, []byte(text))
						return err
					}
				},
				"claim": func(text string) func(ctx context.Context) error {
					use()
					return func(ctx context.Context) error {
						claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: text})
						if err == nil && len(claimed) != 1 {
							err = fmt.Errorf("claimed %d", len(claimed))
						}
						return err
					}
				},
				"transition": func(text string) func(ctx context.Context) error {
					id := use()
					return func(ctx context.Context) error {
						_, err := store.Plans().Transition(ctx, id, repo.TransitionStart, repo.Cause{Reason: text})
						return err
					}
				},
			} {
				first, others := prepare("stuck"), make([]func(ctx context.Context) error, 8)
				for i := range others {
					others[i] = prepare("x")
				}
				release := lock(t, conn, "SELECT pg_advisory_xact_lock(1)")
				stuck := make(chan error, 1)
				go func() { stuck <- first(ctx) }()
				await.For(t, kind+" is stuck", func() bool {
					return pgtest.Value[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 1
						AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
				})
				ended := make(chan error, len(others))
				for _, other := range others {
					go func() { ended <- other(ctx) }()
				}
				for range others {
					if err := await.Value(t, kind+" beside one that is stuck", ended); err != nil {
						t.Errorf("%s beside one that is stuck: %v", kind, err)
					}
				}
				release()
				if err := <-stuck; err != nil {
					t.Errorf("%s that was stuck: %v", kind, err)
				}
			}
		})
	}
}
