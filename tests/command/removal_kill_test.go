package command

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// rowsWith returns the rows of all tables that have a name, as text.
func rowsWith(t *testing.T, store *agentstore.Store, name string) (found []string) {
	t.Helper()
	for _, table := range tables.Names(t, store.Pool()) {
		rows, err := store.Pool().Query(t.Context(), `SELECT row_to_json(t)::text FROM `+table+` t
			WHERE position($1 IN row_to_json(t)::text) > 0 OR position(encode(convert_to($1, 'UTF8'), 'hex') IN row_to_json(t)::text) > 0`,
			pgx.QueryExecModeSimpleProtocol, name)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			found = append(found, table+" "+text)
		}
	}
	slices.Sort(found)
	return found
}

// killed runs the command, and kills it after a random part of the time that a run takes. It reports whether it was killed.
func killed(t *testing.T, databaseURL string, takes time.Duration, args ...string) bool {
	t.Helper()
	command := New(t.Context(), t, databaseURL, args...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(rand.N(takes), func() { _ = command.Process.Kill() }) // pace: it may also end by itself
	defer timer.Stop()
	return command.Wait() != nil
}

// Erasures and retentions are killed at random points, with the leases that they hold. The next run finishes, and touches nothing
// else.
// Guarantee: Deletion: An erasure or retention that is killed is finished by the next run, which touches nothing else.
func TestRemovalsKilled(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("sixteen bytes or"), 0o600); err != nil {
		t.Fatal(err)
	}
	takes := 2 * time.Second
	kills, rounds := 0, pgtest.Choose(200, 4)
	for round := range rounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) { // which closes what it has opened
			kills += removalsKilled(t, keyFile, 1+round%3, &takes)
		})
	}
	if kills == 0 {
		t.Error("no run was killed")
	}
	t.Logf("%d runs were killed in %d rounds", kills, rounds)
}

// removalsKilled has an erasure and a retention killed some times each. takes is how long one took before, and takes now.
func removalsKilled(t *testing.T, keyFile string, times int, takes *time.Duration) (kills int) {
	t.Helper()
	const canary, other = "canary@example.com", "somebody@else.example"
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	repotest.Person(t, store, canary, "1")
	tables.Seal(t, store)
	repotest.Person(t, store, other, "2")
	erased := []string{"erase", "subject", "--owner", canary, "--scope", canary, "--key-file", keyFile}
	idle, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: "old", Key: "goes"})
	if err != nil {
		t.Fatal(err)
	}
	retained := []string{"retention", "run", "--sessions", "old=1ms"}
	theirs := rowsWith(t, store, other)
	for _, args := range [][]string{erased, retained} {
		for range times {
			if killed(t, pgtest.WithParameter(databaseURL, "application_name", "killed"), *takes, args...) {
				kills++
			}
		}
		// The server may still be at what one that was killed has asked for: so it has the lease, or the session, for a moment.
		await.For(t, "the server to end what was killed", func() bool {
			return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'killed'") == 0
		})
		pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = now() WHERE kind = 'retention'") // which would be waited for
		began := time.Now()
		if code, _, stderr := Run(t.Context(), t, databaseURL, args...); code != 0 {
			t.Fatalf("%v ends with %d: %s", args, code, stderr)
		}
		*takes = min(max(time.Since(began), 50*time.Millisecond), 3*time.Second)
	}
	if found := rowsWith(t, store, canary); len(found) > 0 {
		t.Error(strings.Join(found, "\n"))
	}
	if _, err := store.Sessions().Get(t.Context(), idle.ID); err == nil {
		t.Error("the idle session is still there")
	}
	if after := rowsWith(t, store, other); !slices.Equal(after, theirs) {
		t.Errorf("%d rows are about another person, there were %d", len(after), len(theirs))
	}
	tables.Seal(t, store)
	if report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{}); err != nil || !report.Intact() {
		t.Errorf("%+v, %v", report, err)
	}
	return kills
}
