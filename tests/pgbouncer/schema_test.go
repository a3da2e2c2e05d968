package pgbouncer

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Behind PgBouncer, Options.Schema needs two things: PgBouncer must ignore the
// parameter, and the role must have the search_path. If either is missing, nothing is
// read or written.
func TestSchema(t *testing.T) {
	t.Parallel()
	const ignore = "ignore_startup_parameters = search_path"
	direct := pgtest.NewDatabase(t)                                                          // with tables in the wrong schema
	options := agentstore.Options{Schema: "Agents", MaxConns: 16, WithoutSessionAudit: true} // so that the trail can be taken down
	opened := pgtest.OpenStore(t, direct, agentstore.Options{Schema: options.Schema, Migrate: true, WithoutSessionAudit: true})

	refuses := func(name, bounced, says string) {
		t.Helper()
		var refused *schema.SettingError
		_, err := agentstore.Open(t.Context(), bounced, options)
		if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &refused) || refused.Name != "search_path" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: Open gave %v", name, err)
		}
		for _, sentinel := range repo.Sentinels() {
			if sentinel != repo.ErrSchema && errors.Is(err, sentinel) { //nolint:errorlint // the sentinels themselves
				t.Errorf("%s: %v is %v, too", name, err, sentinel)
			}
		}
		migrator, err := schema.Open(t.Context(), bounced, schema.Options{Schema: options.Schema})
		if err == nil {
			err = migrator.Validate(t.Context())
		}
		if !errors.As(err, &refused) || refused.Name != "search_path" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the migrator gave %v", name, err)
		}
	}
	refuses("not ignored", withMode(pgtest.NewBouncer(t, direct, "transaction", 3), documentedMode), "ignore_startup_parameters")
	refuses("not ignored, in session mode", pgtest.NewBouncer(t, direct, "session", 3), "ignore_startup_parameters")
	refuses("ignored alone", withMode(pgtest.NewBouncer(t, direct, "transaction", 3, ignore), documentedMode), `must begin with "Agents"`)

	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	pgtest.Exec(t, opened.Pool(), "ALTER ROLE "+u.User.Username()+" IN DATABASE "+strings.TrimPrefix(u.Path, "/")+` SET search_path = "Agents"`)
	bounced := withMode(pgtest.NewBouncer(t, direct, "transaction", 3, ignore), documentedMode)
	store := pgtest.OpenStore(t, bounced, options)
	id := pgtest.NewSession(t, store)
	appendFromMany(t, store, id)
	if _, err := opened.Sessions().Get(t.Context(), id); err != nil {
		t.Errorf("the session is not in the schema: %v", err)
	}
	migrator, err := schema.Open(t.Context(), bounced, schema.Options{Schema: options.Schema})
	if err == nil {
		err = migrator.Validate(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	// Migrations need session mode.
	migrator, err = schema.Open(t.Context(), pgtest.NewBouncer(t, direct, "session", 3, ignore), schema.Options{Schema: options.Schema})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []schema.Target{schema.TargetDownSteps(1), schema.TargetLatest()} {
		if steps, err := migrator.Run(t.Context(), target); err != nil || len(steps) != 1 {
			t.Errorf("in session mode: %v, %v", steps, err)
		}
	}
}
