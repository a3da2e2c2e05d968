package rolling

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test tries libraries that the database allows: the one before the newest
// version, and the oldest.
func TestOlderCommits(t *testing.T) {
	t.Parallel()
	requireHistory(t)
	migrations := schema.List()
	newest := migrations[len(migrations)-1]
	if newest.Version <= firstCompatible {
		t.Logf("version %d is the first that older libraries may work on: TestNewerVersion has a made-up one", firstCompatible)
		return
	}
	if newest.OldestLibrary >= newest.Version {
		t.Logf("%s allows no older library", newest.Name)
		return
	}
	tried := map[string]bool{}
	for _, version := range []int64{newest.Version, newest.OldestLibrary + 1} {
		commit := before(t, version)
		if commit == "" {
			t.Logf("versions %d and %d were added together: no commit is between them", version, firstCompatible)
			continue
		}
		if tried[commit] {
			continue
		}
		tried[commit] = true
		t.Run("before "+file(t, version), func(t *testing.T) {
			t.Parallel()
			versions := versionsAt(t, commit)
			t.Logf("commit %s, which knows version %d", commit, versions[len(versions)-1])
			upgrade{
				old: build(t, commit), from: versions[len(versions)-1],
				migrations: nil, current: build(t, workingTree),
			}.run(t)
		})
	}
}

// A version that makes all allowed additions (CONTRIBUTING.md), with this library as
// the older one.
const expanding = `-- oldest library: 4

-- +goose Up
ALTER TABLE sessions ADD COLUMN extra text, ADD COLUMN counted bigint NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN extra json NOT NULL DEFAULT '{}';
ALTER TABLE plans ADD COLUMN extra text;
ALTER TABLE plan_history ADD COLUMN extra text;
ALTER TABLE actions ADD COLUMN extra text;
ALTER TABLE audit_entries ADD COLUMN extra text;
ALTER TABLE audit_leaves ADD COLUMN extra text;
CREATE TABLE extras (session_id uuid NOT NULL, id uuid NOT NULL, CONSTRAINT extras_pkey PRIMARY KEY (session_id, id));
CREATE INDEX sessions_extra_idx ON sessions (extra) WHERE extra IS NOT NULL;

-- +goose Down
SELECT 1;
`

// contracting is a version that removes what an older library needs.
const contracting = `-- oldest library: 9002

-- +goose Up
ALTER TABLE sessions RENAME COLUMN actor TO agent;

-- +goose Down
ALTER TABLE sessions RENAME COLUMN agent TO actor;
`

func with(t *testing.T, extra map[string]string) fstest.MapFS {
	t.Helper()
	migrations := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS("../../schema/migrations"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile("../../schema/migrations/" + path)
		migrations[path] = &fstest.MapFile{Data: content}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range extra {
		migrations[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return migrations
}

func TestNewerVersion(t *testing.T) {
	t.Parallel()
	u := upgrade{
		old: build(t, workingTree), from: schema.Latest(),
		migrations: with(t, map[string]string{"9001_expanding.sql": expanding}),
		naive:      true,
	}
	databaseURL, session := u.run(t)

	// The next version removes what the older library needs, and declares that.
	migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{
		Migrations: with(t, map[string]string{"9001_expanding.sql": expanding, "9002_contracting.sql": contracting}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"-session", session}, {"-session", session, "-migrate"}} {
		said := start(t, u.old, databaseURL, arguments...).refused(t)
		if !strings.Contains(said, "works with libraries of version 9002 and later") || !strings.Contains(said, "upgrade the binary") {
			t.Errorf("%v: %s", arguments, said)
		}
	}
}

// upgrade is an older library's client, and what happens to its database.
type upgrade struct {
	old  string // the path of the client
	from int64  // the newest version that it knows
	// migrations are the newer library's. Nil: the embedded ones.
	migrations fs.FS
	// current is the path of the newer library's client. Empty: there is none.
	current string
	// naive: also read with SELECT *, which the harness must see fail.
	naive bool
}

const rounds = 40

func (u upgrade) run(t *testing.T) (databaseURL, session string) {
	t.Helper()
	databaseURL = pgtest.NewEmptyDatabase(t)
	migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{Migrations: u.migrations})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetUp(u.from)); err != nil {
		t.Fatal(err)
	}
	session = newSession(t, databaseURL)
	if u.current != "" { // before the migration the newer library is refused, and says what to do
		said := start(t, u.current, databaseURL, "-session", session).refused(t)
		if !strings.Contains(said, "database is behind") || !strings.Contains(said, "agentstore migrate up") {
			t.Errorf("on a database that was not migrated the library printed %q", said)
		}
	}
	checkNaive := func() {}
	if u.naive {
		checkNaive = naiveReader(t, databaseURL)
	}

	first := start(t, u.old, databaseURL, "-session", session)
	first.work(t, rounds)
	steps, err := migrator.Run(t.Context(), schema.TargetLatest())
	if err != nil || len(steps) == 0 {
		t.Fatalf("migrate under the older library's load: %v, %v", steps, err)
	}
	first.work(t, rounds)
	checkNaive()

	// Older clients restart, or are started again to roll back, beside the newer one.
	running := []*process{first, start(t, u.old, databaseURL, "-session", session), start(t, u.old, databaseURL, "-session", session, "-migrate")}
	if u.current != "" {
		running = append(running, start(t, u.current, databaseURL, "-session", session))
	}
	// This library's turns, beside them.
	stop := make(chan struct{})
	turned := make(chan int64, 1)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	go func() { turned <- turns(t, store, session, stop) }()
	for _, p := range running {
		p.work(t, rounds)
	}
	close(stop)
	appended := <-turned
	for i, p := range running {
		report := p.end(t)
		if report.Failures != 0 {
			t.Errorf("client %d: %d of %d rounds failed, the first: %s", i, report.Failures, p.rounds.Load(), report.FirstFailure)
		}
		t.Logf("client %d: %d rounds", i, p.rounds.Load())
		appended += report.Appended
	}
	checkSession(t, databaseURL, session, appended)
	checkAudit(t, databaseURL)
	return databaseURL, session
}

// turns adds turns to the clients' session until it is told to stop, alone and together
// with one of another session. It returns how many messages of the session it has stored.
func turns(t *testing.T, store repo.Store, session string, stop <-chan struct{}) (stored int64) {
	shared, err := repo.ParseID(session)
	if err != nil {
		t.Error(err)
		return 0
	}
	turn := repo.Turn{
		Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "turn"}}, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{{Scope: repo.Scope{Name: "rolling"}, Key: "n", Op: repo.StateIncrement, By: 1}, {Key: "n", Op: repo.StateIncrement, By: 1}},
	}
	other := pgtest.NewSession(t, store)
	for {
		if _, err := store.Sessions().AppendTurn(t.Context(), shared, turn); err != nil {
			t.Errorf("a turn: %v", err)
			return stored
		}
		if _, err := store.Sessions().AppendTurns(t.Context(), repo.SessionTurn{SessionID: other, Turn: turn},
			repo.SessionTurn{SessionID: shared, Turn: turn}); err != nil {
			t.Errorf("turns together: %v", err)
			return stored
		}
		stored += 2
		select {
		case <-stop:
		default:
			continue
		}
		for scope, want := range map[repo.Scope]int64{{Name: "rolling"}: stored / 2 * 3, {SessionID: shared}: stored} {
			sum, err := store.State().Get(t.Context(), scope, "n")
			if err != nil || string(sum.Value) != fmt.Sprint(want) {
				t.Errorf("the sum of %+v is %s, want %d: %v", scope, sum.Value, want, err)
			}
		}
		return stored
	}
}

// checkAudit seals the remaining entries, and verifies what libraries of several
// versions have sealed.
func checkAudit(t *testing.T, databaseURL string) {
	t.Helper()
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	sealer, err := audit.NewSealer(store.AuditStore(), audit.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for sealed := 1; sealed > 0; {
		if sealed, err = sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := audit.Verify(t.Context(), store.AuditStore(), audit.VerifyOptions{})
	if err != nil || len(report.Breaks) != 0 || report.Sealed == 0 {
		t.Errorf("the trail: %d sealed, breaks %+v, %v", report.Sealed, report.Breaks, err)
	}
}

// newSession creates a session, whatever the database's version.
func newSession(t *testing.T, databaseURL string) string {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	id := repo.NewID()
	const sql = `WITH made AS (INSERT INTO sessions (id) VALUES ($1) RETURNING id) INSERT INTO session_counters (session_id) SELECT id FROM made`
	pgtest.Exec(t, conn, sql, [16]byte(id))
	return id.String()
}

// naiveReader prepares a query that does not name its columns. The function it
// returns checks how it fails when there are more.
func naiveReader(t *testing.T, databaseURL string) (check func()) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	read := func() error {
		rows, err := conn.Query(t.Context(), "SELECT * FROM messages WHERE session_id = $1", [16]byte{})
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if refused, ok := errors.AsType[*pgconn.PgError](read()); !ok || refused.Code != "0A000" {
			t.Errorf("SELECT * during the migration gave %v: the harness does not catch it", refused)
		}
	}
}

// checkSession reads what the clients wrote, and checks that each acknowledged
// message is there, in one dense sequence.
func checkSession(t *testing.T, databaseURL, session string, want int64) {
	t.Helper()
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id, err := repo.ParseID(session)
	if err != nil {
		t.Fatal(err)
	}
	if count := pgtest.CountDense(t, store, id); count != want || want == 0 {
		t.Errorf("%d messages, %d acknowledged", count, want)
	}
}
