package cli

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestState(t *testing.T) {
	d := newDatabase(t)
	id := d.session("").ID
	app, own := repo.Scope{Name: "app " + hostile}, repo.Scope{SessionID: id}
	var changes []repo.StateChange
	for _, key := range []string{"cart/1", "cart/2", "other", hostile} {
		changes = append(changes, repo.StateChange{Scope: app, Key: key, Value: []byte(`"private"`)})
	}
	changes = append(changes, repo.StateChange{Scope: own, Key: "step", Op: repo.StateIncrement, By: 7})
	must[[]repo.ScopeVersion](t)(d.store.State().Change(t.Context(), changes))

	if got := d.values("key", "state", "list", app.Name, "--prefix", "cart/"); got != "cart/1 cart/2" {
		t.Errorf("listed %q", got)
	}
	if got := d.values("key", "state", "list", "--session", id.String()); got != "step" {
		t.Errorf("listed %q", got)
	}
	if got := d.values("value", "state", "list", app.Name, "--prefix", "cart/1", "--details"); got != "private" {
		t.Errorf("the value is %q", got)
	}
	d.hides("private", "state", "list", app.Name)
	if _, _, stderr := d.execute("state", "list", app.Name, "--limit", "2"); !strings.Contains(stderr, "--after ") {
		t.Errorf("no way to continue: %q", stderr)
	}
	if out := d.run("state", "get", "step", "--session", id.String(), "--json"); !strings.Contains(out, `"value":7}`) {
		t.Errorf("shown: %s", out)
	}
	if out := d.run("state", "get", "other", app.Name); !strings.Contains(out, `"private"`) {
		t.Errorf("shown: %s", out)
	}
	d.refuses(exitFailed, "not found", "state", "get", "none", app.Name)
	d.refuses(exitFailed, "not found", "state", "list", "--session", repo.NewID().String())
	d.refuses(exitUsage, "SCOPE", "state", "list")
	d.refuses(exitUsage, "SCOPE", "state", "list", "app", "--session", id.String())
	d.refuses(exitUsage, "SCOPE", "state", "get", "step")
	d.refuses(exitUsage, "key", "state", "get", "", "app")
	d.refuses(exitUsage, "scope_name", "state", "erase", "", "--yes")

	d.refuses(exitFailed, "nothing was deleted", "state", "erase", app.Name)
	if out := d.run("state", "erase", app.Name, "--yes", "--json"); out != `{"keys":4}`+"\n" {
		t.Errorf("erased: %s", out)
	}
	if out := d.run("state", "erase", app.Name, "--yes"); !strings.Contains(out, "erased: 0 keys") {
		t.Errorf("erased again: %s", out)
	}
	if out := d.run("session", "delete", id.String(), "--yes"); !strings.Contains(out, "1 keys of state") {
		t.Errorf("deleted: %s", out)
	}
}
