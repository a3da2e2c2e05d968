package migrate

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// For each version: applying and reverting it restores the schema before it, and
// applying it again the schema after it.
func TestUpDownUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{})
	for _, migration := range schema.List() {
		before := schemaOf(t, conn)
		step(t, migrator, schema.TargetUp(migration.Version))
		after := schemaOf(t, conn)
		step(t, migrator, schema.TargetDownSteps(1))
		equalCatalogs(t, migration.Name+" down", schemaOf(t, conn), before)
		step(t, migrator, schema.TargetUpSteps(1))
		equalCatalogs(t, migration.Name+" up again", schemaOf(t, conn), after)
	}
}

func TestAllDownAllUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	empty := schemaOf(t, conn)
	migrator := open(t, databaseURL, schema.Options{})
	if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Fatal(err)
	}
	full := catalog(t, conn)
	if len(full) < 50 {
		t.Fatalf("only %d lines of catalog, too few for the comparison", len(full))
	}
	if _, err := migrator.Run(t.Context(), schema.TargetDown(0)); err != nil {
		t.Fatal(err)
	}
	equalCatalogs(t, "all down", schemaOf(t, conn), empty)
	if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Fatal(err)
	}
	equalCatalogs(t, "all up again", catalog(t, conn), full)
}

func TestDownWithLiveDataRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, insertSession)
	before := catalog(t, conn)

	// The option allows it; a URL cannot.
	for _, asked := range []string{databaseURL, pgtest.WithParameter(databaseURL, "agentstore.allow_data_loss", "on")} {
		steps, err := open(t, asked, schema.Options{}).Run(t.Context(), schema.TargetDown(0))
		var failed *schema.StepError
		if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != 1 {
			t.Fatalf("steps %v, error %v", steps, err)
		}
	}
	if len(schema.List()) == 1 {
		equalCatalogs(t, "refused", catalog(t, conn), before)
	}
	if got := pgtest.Value[int64](t, conn, "SELECT count(*) FROM sessions"); got != 1 {
		t.Errorf("%d sessions left, want 1", got)
	}

	steps, err := open(t, databaseURL, schema.Options{AllowDataLoss: true}).Run(t.Context(), schema.TargetDown(0))
	if err != nil || len(steps) == 0 || steps[len(steps)-1].Version != 1 {
		t.Errorf("with AllowDataLoss: steps %v, error %v", steps, err)
	}
	if pgtest.Value[bool](t, conn, "SELECT to_regclass('sessions') IS NOT NULL") {
		t.Error("with AllowDataLoss: the table is still there")
	}
}

// Version 10's Down refuses while there is state, and drops what has none.
func TestDownWithStateRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := pgtest.Connect(t, databaseURL)
	const scope = "'00000000-0000-0000-0000-000000000001'"
	pgtest.Exec(t, conn, `INSERT INTO state_scopes (id, name, version) VALUES (`+scope+`, 'app', 1);
		INSERT INTO state_values (scope_id, key, value, version) VALUES (`+scope+`, 'a', '1', 1)`)
	steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetDown(9))
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != 10 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
	if got := pgtest.Value[int64](t, conn, "SELECT count(*) FROM state_values"); got != 1 {
		t.Errorf("%d keys left, want 1", got)
	}
	pgtest.Exec(t, conn, "DELETE FROM state_values")
	if steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetDown(9)); err != nil {
		t.Errorf("steps %v, error %v", steps, err)
	}
}

// Version 13's Down refuses while there are leases. Applied again, it gives no token a
// second time.
func TestDownWithLeasesRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, `INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at)
		VALUES ('a', 'b', 'c', nextval('lease_tokens'), now(), now())`)
	steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetDown(12))
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != 13 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
	before := pgtest.Value[int64](t, conn, "DELETE FROM leases RETURNING token")
	for _, target := range []schema.Target{schema.TargetDown(12), schema.TargetUp(13)} {
		if steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), target); err != nil {
			t.Fatalf("steps %v, error %v", steps, err)
		}
	}
	if after := pgtest.Value[int64](t, conn, "SELECT nextval('lease_tokens')"); after <= before {
		t.Errorf("the next token is %d after %d", after, before)
	}
}

// Version 18's Down refuses while there are streams. Applied again, it gives no fence a
// second time.
func TestDownWithStreamsRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, `INSERT INTO streams (id, key, owner, opener, began, fence, ttl, expires_at)
		SELECT gen_random_uuid(), 'a', 'b', gen_random_uuid(), n, n, '1 minute', now() FROM nextval('stream_fences') n`)
	steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetDown(17))
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != 18 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
	before := pgtest.Value[int64](t, conn, "DELETE FROM streams RETURNING fence")
	for _, target := range []schema.Target{schema.TargetDown(17), schema.TargetUp(18)} {
		if steps, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), target); err != nil {
			t.Fatalf("steps %v, error %v", steps, err)
		}
	}
	if after := pgtest.Value[int64](t, conn, "SELECT nextval('stream_fences')"); after <= before {
		t.Errorf("the next fence is %d after %d", after, before)
	}
}

// Version 20's Down refuses while a part is larger than the version before allows, and
// removes its stream if data may be lost.
func TestDownWithLargePartsRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := pgtest.Connect(t, databaseURL)
	for _, size := range []int{1 << 20, 1<<20 + 1} {
		pgtest.Exec(t, conn, `WITH stream AS (
				INSERT INTO streams (id, key, owner, opener, began, fence, ttl, expires_at)
				SELECT gen_random_uuid(), $1::integer::text, 'b', gen_random_uuid(), n, n, '1 minute', now() FROM nextval('stream_fences') n
				RETURNING id
			) INSERT INTO stream_parts (stream_id, sequence, data)
			SELECT id, n, decode(repeat('00', n * $1::integer + 1 - n), 'hex') FROM stream, generate_series(0, 1) n`, size)
	}
	down := func(options schema.Options) error {
		_, err := open(t, databaseURL, options).Run(t.Context(), schema.TargetDown(19))
		return err
	}
	if err := down(schema.Options{}); !errors.Is(err, schema.ErrDataLoss) {
		t.Fatalf("error %v", err)
	}
	if err := down(schema.Options{AllowDataLoss: true}); err != nil {
		t.Fatal(err)
	}
	left := pgtest.Value[string](t, conn, `SELECT string_agg(s.key || ' ' || p.sequence || ' ' || octet_length(p.data), ', ' ORDER BY p.sequence)
		FROM stream_parts p LEFT JOIN streams s ON s.id = p.stream_id`)
	if streams := pgtest.Value[int](t, conn, "SELECT count(*) FROM streams"); streams != 1 || left != "1048576 0 1, 1048576 1 1048576" {
		t.Errorf("%d streams are left, with %s", streams, left)
	}
}

// A writer that commits between the check for rows and the drop would lose its row.
// The lock makes the check wait for the writer, and then see its row.
func TestDownWaitsForARunningWriter(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	migrator := open(t, databaseURL, schema.Options{})
	step(t, migrator, schema.TargetUp(1))
	conn := pgtest.Connect(t, databaseURL)
	tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, insertSession)
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetDownSteps(1))
		result <- err
	}()
	pgtest.Await(t, patience, "the revert waits", func() bool {
		return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'sessions'::regclass)")
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, schema.ErrDataLoss) {
		t.Errorf("got %v, want ErrDataLoss", err)
	}
}

// step runs to a target that is exactly one version away.
func step(t *testing.T, migrator *schema.Migrator, target schema.Target) {
	t.Helper()
	steps, err := migrator.Run(t.Context(), target)
	if err != nil || len(steps) != 1 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
}
