//go:build citus

package citus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// The owner of the schema is no superuser, and the store has the rights of schema.Grants only; also after its schema was moved.
func testRoles(t *testing.T, all nodes) {
	suffix := strings.ToLower(repo.NewID().String())
	owner := "owner_" + suffix
	roles := schema.Roles{Application: "Application " + suffix, Reader: "Reader " + suffix, Audit: "Audit " + suffix}
	t.Cleanup(func() {
		for _, role := range []string{roles.Application, roles.Reader, roles.Audit, owner} {
			run(t, all.coordinator, fmt.Sprintf(`DROP OWNED BY %[1]q`, role))
			run(t, all.coordinator, fmt.Sprintf(`DROP ROLE %q`, role))
		}
	})
	run(t, all.coordinator, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN CREATEROLE; GRANT CREATE ON DATABASE %[2]s TO %[1]s`, owner, database))
	as := func(role string) string { return pgtest.WithUser(all.coordinator, role, "none") }
	roles.Schema = made(t, as(owner))
	sql, err := schema.Grants(roles)
	if err != nil {
		t.Fatal(err)
	}
	run(t, as(owner), sql)
	for _, role := range []string{roles.Application, roles.Audit} {
		run(t, as(owner), fmt.Sprintf(`ALTER ROLE %q LOGIN`, role))
	}
	options := agentstore.Options{Schema: roles.Schema, MaxConns: 16}
	repotest.RunApplication(t, opener(as(roles.Application), options), repotest.Races(0))
	tables.Seal(t, open(t, as(roles.Audit), options))

	migrator, err := schema.Open(t.Context(), all.coordinator, schema.Options{Schema: roles.Schema})
	if err != nil {
		t.Fatal(err)
	}
	before, err := migrator.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var host string
	var port int
	run(t, all.coordinator, fmt.Sprintf("SELECT nodename FROM pg_dist_node WHERE shouldhaveshards AND nodename || ':' || nodeport <> '%s'", before), &host)
	run(t, all.coordinator, fmt.Sprintf("SELECT nodeport FROM pg_dist_node WHERE shouldhaveshards AND nodename || ':' || nodeport <> '%s'", before), &port)
	run(t, all.coordinator, fmt.Sprintf("SELECT citus_schema_move('%s', '%s', %d, 'force_logical')", roles.Schema, host, port))
	if after, err := migrator.Node(t.Context()); err != nil || after == before {
		t.Errorf("moved from %s to %s, %v", before, after, err)
	}
	repotest.RunApplication(t, opener(as(roles.Application), options), repotest.Only("Append", "Plans"))
	tables.Seal(t, open(t, as(roles.Audit), options))
}
