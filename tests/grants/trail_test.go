package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// trailTable returns the cells of the table of the audit trail in docs/operations.md,
// by row and column.
func trailTable(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	table := map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "audit trail":
			columns = cells
		case columns != nil && len(cells) != len(columns):
			return table
		case columns != nil && cells[0] != "---":
			table[cells[0]] = map[string]string{}
			for i, cell := range cells[1:] {
				table[cells[0]][columns[i+1]] = cell
			}
		}
	}
	t.Fatal("docs/operations.md has no table of the audit trail")
	return nil
}

// Each role may do with the audit trail what docs/operations.md says, and nothing else
// of it.
// Guarantee: Servers and roles: Each role may do with the audit trail what docs/operations.md says.
func TestTableOfTheAuditTrail(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	owner := pgtest.OpenStore(t, g.owner, agentstore.Options{})
	roles := map[string]string{
		"the owner": g.owner, "application": g.application, "reader": g.reader, "audit": g.auditWrite,
		"application and audit": member(t, g, g.roles.Application, g.roles.Audit),
	}
	hold := auditlog.Hold{PlanID: repo.NewID(), Reason: "x"}
	operations := map[string]func(context.Context, *agentstore.Store) error{
		"record entries": func(ctx context.Context, s *agentstore.Store) error { return s.Audit().Record(ctx, entry()) },
		"read entries": func(ctx context.Context, s *agentstore.Store) error {
			_, err := s.Audit().List(ctx, repo.AuditFilter{}, repo.Page{})
			return err
		},
		"seal": func(ctx context.Context, s *agentstore.Store) error {
			sealer, err := trail.NewSealer(s.AuditLog(), trail.SealerOptions{})
			if err == nil {
				_, err = sealer.SealOnce(ctx)
			}
			return err
		},
		"verify": func(ctx context.Context, s *agentstore.Store) error {
			report, err := trail.Verify(ctx, s.AuditLog(), trail.VerifyOptions{})
			if err == nil && !report.Intact() {
				t.Errorf("%+v", report)
			}
			return err
		},
		"doctor": func(ctx context.Context, s *agentstore.Store) error { _, err := s.AuditLog().Doctor(ctx); return err },
		"list holds": func(ctx context.Context, s *agentstore.Store) error {
			_, err := s.AuditLog().Holds(ctx)
			return err
		},
		"hold, release": func(ctx context.Context, s *agentstore.Store) error {
			held, released := s.AuditLog().Hold(ctx, hold), s.AuditLog().Release(ctx, hold)
			if (held == nil) != (released == nil) {
				t.Errorf("hold: %v, release: %v", held, released)
			}
			return errors.Join(held, released)
		},
		"prune": func(ctx context.Context, s *agentstore.Store) error {
			_, err := s.AuditLog().Prune(ctx, auditlog.Prune{Before: time.Now().Add(-time.Hour), Reason: "x"})
			return err
		},
	}
	for row, cells := range trailTable(t) {
		name, _, _ := strings.Cut(row, " (")
		operation := operations[name]
		if operation == nil || len(cells) != len(roles) {
			t.Errorf("%s: not an operation of all %d roles", row, len(roles))
			continue
		}
		delete(operations, name)
		for role, url := range roles {
			if err := owner.Audit().Record(t.Context(), entry()); err != nil { // something to seal
				t.Fatal(err)
			}
			err := operation(t.Context(), pgtest.OpenStore(t, url, agentstore.Options{}))
			if want := cells[role]; err == nil && want != "yes" || err != nil && (want != "–" || !errors.Is(err, repo.ErrPermission)) {
				t.Errorf("%s as %s: %v, documented: %q", row, role, err, want)
			}
		}
	}
	for row := range operations {
		t.Errorf("docs/operations.md does not say who may %s", row)
	}
}

// member returns the URL of a new role that is a member of others.
func member(t *testing.T, g granted, of ...string) string {
	t.Helper()
	name, password := "member "+rand.Text()[:12], rand.Text()
	quoted := pgx.Identifier{name}.Sanitize()
	conn := pgtest.Connect(t, g.owner)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := conn.Exec(ctx, "DROP ROLE "+quoted); err != nil {
			t.Error(err)
		}
		_ = conn.Close(ctx)
	})
	for i := range of {
		of[i] = pgx.Identifier{of[i]}.Sanitize()
	}
	pgtest.Exec(t, conn, "CREATE ROLE "+quoted+" LOGIN PASSWORD '"+password+"' IN ROLE "+strings.Join(of, ", "))
	return pgtest.WithUser(g.owner, name, password)
}
