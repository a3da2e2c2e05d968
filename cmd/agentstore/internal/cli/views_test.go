package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// Scopes, leases and streams of the same name are each namespace's own.
func TestNamespaces(t *testing.T) {
	d := newDatabase(t)
	for _, namespace := range []string{repo.DefaultNamespace, "shop"} {
		view := d.store.In(namespace)
		must[[]repo.ScopeVersion](t)(view.State().Change(t.Context(), []repo.StateChange{{Scope: repo.Scope{Name: "app"}, Key: "in " + namespace, Value: []byte("1")}}))
		must[repo.Lease](t)(view.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: "a"}, Owner: "of " + namespace}))
		stream := must[repo.Stream](t)(view.Streams().Open(t.Context(), repo.NewStream{Key: "answer", Owner: "of " + namespace}))
		must[int64](t)(view.Streams().Append(t.Context(), stream, []byte("in "+namespace)))
		if err := view.Streams().Finish(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, flags := range map[string][]string{repo.DefaultNamespace: nil, "shop": {"--namespace", "shop"}} {
		in := func(arguments ...string) []string { return append(arguments, flags...) }
		if got := d.values("key", in("state", "list", "app")...); got != "in "+namespace {
			t.Errorf("%s: the scope has %q", namespace, got)
		}
		d.run(in("state", "get", "in "+namespace, "app")...)
		if got := d.values("owner", in("lease", "list", "--kind", "job")...); got != "of "+namespace {
			t.Errorf("%s: the lease is %q", namespace, got)
		}
		if got := d.values("owner", in("stream", "show", "answer")...); got != "of "+namespace {
			t.Errorf("%s: the stream is %q", namespace, got)
		}
		if got := d.run(in("stream", "tail", "answer", "--contents")...); got != "in "+namespace+"\n" {
			t.Errorf("%s: the stream has %q", namespace, got)
		}
	}
	if out := d.run("lease", "release", "job", "a", "--yes", "--namespace", "shop"); out != "released: 1\n" {
		t.Errorf("released: %s", out)
	}
	if out := d.run("state", "erase", "app", "--yes", "--namespace", "shop", "--json"); out != `{"keys":1}`+"\n" {
		t.Errorf("erased: %s", out)
	}
	if got := d.values("owner", "lease", "list") + " " + d.values("key", "state", "list", "app"); got != "of local in local" {
		t.Errorf("what is left elsewhere: %q", got)
	}
	d.refuses(exitUsage, `--sessions: "x=90d" is not`, "retention", "run", "--sessions", "x=90d")
	d.refuses(exitUsage, "--sessions is given twice", "retention", "run", "--sessions", "x=90h", "--sessions", "y=90h")
	d.refuses(exitUsage, "--namespace is empty", "state", "erase", "app", "--yes", "--namespace", "")
	d.refuses(exitUsage, "--namespace is given twice", "lease", "list", "--namespace", "a", "--namespace", "b")
	d.refuses(exitUsage, "--owner is given twice", "erase", "subject", "--owner", "a", "--owner", "b")
	d.refuses(exitUsage, "--limit is given twice", "lease", "list", "--limit", "1", "--limit", "2")
	d.refuses(exitUsage, "--status is given twice", "lease", "list", "--status", "held", "--status", "held")
	if _, _, stderr := d.execute("lease", "list", "--database-url", "postgres://a:secret@h/d", "--database-url", "postgres://a:secret@h/e"); !strings.Contains(stderr, "--database-url is given twice") || strings.Contains(stderr, "secret") {
		t.Errorf("the URL twice: %q", stderr)
	}
	d.refuses(exitUsage, "at least 1", "migrate", "down", "--steps", "0")
	d.refuses(exitUsage, "--key-file: open", "erase", "subject", "x", "--key-file", "/none")
}

// Names are given one by one: they may have commas.
func TestEraseNames(t *testing.T) {
	d := newDatabase(t)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("the key of the receipts"), 0o600); err != nil {
		t.Fatal(err)
	}
	ids := map[string]repo.ID{}
	for _, actor := range []string{"Doe, Jane", "Roe", "Doe", " Jane"} {
		ids[actor] = must[repo.Session](t)(d.store.Sessions().Create(t.Context(), repo.NewSession{Actor: actor})).ID
	}
	d.run("erase", "subject", "--owner", "nobody", "--actor", "Doe, Jane", "--actor", "Roe", "--key-file", keyFile)
	for actor, id := range ids {
		session := must[repo.Session](t)(d.store.Sessions().Get(t.Context(), id))
		if theirs := actor == "Doe, Jane" || actor == "Roe"; (session.Actor == "") != theirs {
			t.Errorf("%q is now %q", actor, session.Actor)
		}
	}
}
