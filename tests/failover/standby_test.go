package failover

import (
	"errors"
	"io"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A store on a hot standby reads and follows, and refuses writes at once. After the promotion
// it writes, and followers go on.
// Guarantee: Servers and roles: A store on a hot standby reads and follows.
func TestStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	primary := pgtest.OpenStore(t, p.primary.URL("postgres"), agentstore.Options{})
	session := pgtest.NewSession(t, primary)
	message := repo.NewMessage{Role: repo.RoleUser, Content: "x"}
	add := func(store *agentstore.Store) {
		t.Helper()
		if _, err := store.Sessions().Append(t.Context(), session, message); err != nil {
			t.Errorf("Append: %v", err)
		}
	}
	add(primary)
	waiting := pgtest.NewPool(t, p.replica.URL("postgres"))
	awaitAnswer(t, func() error { return schema.Check(t.Context(), waiting) }) // it has replayed the migrations
	standby := pgtest.OpenStore(t, p.replica.URL("postgres"), agentstore.Options{Migrate: true})
	awaitAnswer(t, func() error { return standby.Sessions().Export(t.Context(), session, io.Discard) })
	for name, write := range map[string]func() error{
		"Append": func() error { _, err := standby.Sessions().Append(t.Context(), session, message); return err },
		"Create": func() error { _, err := standby.Sessions().Create(t.Context(), repo.NewSession{}); return err },
		"Claim with Wait": func() error {
			_, err := standby.Plans().Claim(t.Context(), repo.Claim{Owner: "o", Wait: true})
			return err
		},
		"Open a stream": func() error {
			_, err := standby.Streams().Open(t.Context(), repo.NewStream{Key: "s", Owner: "o"})
			return err
		},
	} {
		if err := write(); !errors.Is(err, repo.ErrUnavailable) {
			t.Errorf("%s on a standby: %v", name, err)
		}
	}
	var next int64
	for followed, err := range standby.Sessions().Follow(t.Context(), session, 0) {
		if err != nil || followed.Sequence != next {
			t.Fatalf("Follow: message %d, want %d: %v", followed.Sequence, next, err)
		}
		switch next++; next {
		case 1:
			add(primary)
		case 2:
			p.primary.Stop(t, 9)
			p.replica.Promote(t)
			pgtest.Exec(t, pgtest.Connect(t, p.replica.URL("postgres")), "ALTER SYSTEM SET synchronous_standby_names = ''")
			pgtest.Exec(t, pgtest.Connect(t, p.replica.URL("postgres")), "SELECT pg_reload_conf()")
			add(standby)
		}
		if next == 3 {
			break
		}
	}
}
