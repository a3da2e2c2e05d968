package rolling

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Each release that the database allows is tried: the one before the newest
// version, and the oldest of all.
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
			t.Logf("version %d landed together with version %d: no commit is between them", version, firstCompatible)
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

// A version that adds what a version may add (CONTRIBUTING.md), with this library
// as the older one.
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

// contracting takes something away: what an older library needs is gone.
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

	// The next version takes away what the older library needs, and says so.
	migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{
		Migrations: with(t, map[string]string{"9001_expanding.sql": expanding, "9002_contracting.sql": contracting}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
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
	old  string // the client's path
	from int64  // the version that it knows
	// migrations are the newer library's; nil for the embedded ones.
	migrations fs.FS
	// current is the newer library's client; empty where there is none.
	current string
	// naive also reads by SELECT *, which this harness must see fail.
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
	if _, err := migrator.UpTo(t.Context(), u.from); err != nil {
		t.Fatal(err)
	}
	session = newSession(t, databaseURL)
	if u.current != "" { // the newer library came too early, and says what to do
		said := start(t, u.current, databaseURL, "-session", session).refused(t)
		if !strings.Contains(said, "database is behind") || !strings.Contains(said, "agentstore migrate up") {
			t.Errorf("a library on a database that was not migrated says %q", said)
		}
	}
	checkNaive := func() {}
	if u.naive {
		checkNaive = naiveReader(t, databaseURL)
	}

	first := start(t, u.old, databaseURL, "-session", session)
	first.work(t, rounds)
	steps, err := migrator.Up(t.Context())
	if err != nil || len(steps) == 0 {
		t.Fatalf("migrate under the older library's load: %v, %v", steps, err)
	}
	first.work(t, rounds)
	checkNaive()

	// Others restart, or are started again to roll back, beside the newer one.
	running := []*process{first, start(t, u.old, databaseURL, "-session", session), start(t, u.old, databaseURL, "-session", session, "-migrate")}
	if u.current != "" {
		running = append(running, start(t, u.current, databaseURL, "-session", session))
	}
	for _, p := range running {
		p.work(t, rounds)
	}
	var appended int64
	for i, p := range running {
		report := p.end(t)
		if report.Failures != 0 {
			t.Errorf("client %d: %d of %d rounds failed, the first: %s", i, report.Failures, p.rounds.Load(), report.FirstFailure)
		}
		t.Logf("client %d: %d rounds", i, p.rounds.Load())
		appended += report.Appended
	}
	checkSession(t, databaseURL, session, appended)
	checkTrail(t, databaseURL)
	return databaseURL, session
}

// checkTrail seals what is left, and verifies what libraries of several versions
// have sealed.
func checkTrail(t *testing.T, databaseURL string) {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	sealer, err := audit.NewSealer(store.Trail(), audit.SealerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for sealed := 1; sealed > 0; {
		if sealed, err = sealer.SealOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := audit.Verify(t.Context(), store.Trail(), audit.VerifyOptions{})
	if err != nil || len(report.Breaks) != 0 || report.Sealed == 0 {
		t.Errorf("the trail: %d sealed, breaks %+v, %v", report.Sealed, report.Breaks, err)
	}
}

// newSession makes one whatever the database's version.
func newSession(t *testing.T, databaseURL string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	id := repo.NewID()
	const sql = `WITH made AS (INSERT INTO sessions (id) VALUES ($1) RETURNING id) INSERT INTO session_counters (session_id) SELECT id FROM made`
	if _, err := conn.Exec(t.Context(), sql, [16]byte(id)); err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// naiveReader prepares a query that does not name its columns, and returns the
// look at how that fares when there are more.
func naiveReader(t *testing.T, databaseURL string) (check func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
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
			t.Errorf("SELECT * under the migration gave %v: the harness does not catch the naive way", refused)
		}
	}
}

// checkSession reads what the clients wrote: every acknowledged message, in one
// dense sequence.
func checkSession(t *testing.T, databaseURL, session string, want int64) {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	id, err := repo.ParseID(session)
	if err != nil {
		t.Fatal(err)
	}
	var next int64
	for message, err := range store.Sessions().Stream(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != next {
			t.Fatalf("sequence %d, want %d", message.Sequence, next)
		}
		next++
	}
	if next != want || want == 0 {
		t.Errorf("%d messages, %d acknowledged", next, want)
	}
}
