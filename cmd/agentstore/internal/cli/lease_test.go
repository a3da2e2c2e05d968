package cli

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestLease(t *testing.T) {
	d := newDatabase(t)
	acquire := func(key repo.LeaseKey, owner string) repo.Lease {
		t.Helper()
		return must[repo.Lease](t)(d.store.Leases().Acquire(t.Context(), repo.NewLease{Key: key, Owner: owner}))
	}
	plan := repo.PlanLease(repo.NewID())
	acquire(repo.LeaseKey{Kind: "project", Name: "b " + hostile}, "worker-1")
	acquire(repo.LeaseKey{Kind: "project", Name: "a"}, "worker-1")
	held := acquire(plan, "worker "+hostile)

	if got := d.values("name", "lease", "list", "--kind", "project", "--name", "a"); got != "a" {
		t.Errorf("listed %q", got)
	}
	if got := d.values("kind", "lease", "list", "--owner", held.Owner, "--status", "held"); got != "plan" {
		t.Errorf("listed %q", got)
	}
	if got := d.values("name", "lease", "list", "--status", "expired"); got != "" {
		t.Errorf("listed %q", got)
	}
	if out := d.run("lease", "list", "--owner", "worker-1", "--details"); !strings.Contains(out, "ACQUIRED") || strings.Count(out, "held") != 2 {
		t.Errorf("listed: %s", out)
	}
	if _, _, stderr := d.execute("lease", "list", "--limit", "2"); !strings.Contains(stderr, "--after ") {
		t.Errorf("no way to continue: %q", stderr)
	}
	d.refuses(exitUsage, "status", "lease", "list", "--status", "lost")
	d.refuses(exitUsage, "KIND", "lease", "release")
	d.refuses(exitUsage, "KIND", "lease", "release", "plan")
	d.refuses(exitUsage, "KIND", "lease", "release", "plan", plan.Name, "--owner", "x")
	d.refuses(exitUsage, "empty", "lease", "release", "plan", "")
	d.refuses(exitFailed, "not found", "lease", "release", "plan", repo.NewID().String())
	d.refuses(exitFailed, "nothing was deleted", "lease", "release", "plan", plan.Name)

	if out := d.run("lease", "release", "plan", plan.Name, "--yes"); out != "released: 1\n" {
		t.Errorf("released: %s", out)
	}
	d.refuses(exitFailed, "not found", "lease", "release", "plan", plan.Name, "--yes")
	if out := d.run("lease", "release", "--owner", "worker-1", "--yes", "--json"); out != `{"released":2}`+"\n" {
		t.Errorf("released: %s", out)
	}
	if got := d.values("name", "lease", "list"); got != "" {
		t.Errorf("left: %q", got)
	}
}
