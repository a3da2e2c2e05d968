package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

// ask asks bob in the default namespace.
func (d *database) ask(t *testing.T, session repo.ID, id string) {
	t.Helper()
	approvals := must[*approval.Approvals](t)(approval.New(d.store, "", approval.Options{}))
	if err := d.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: approval.Ref{SessionID: session, ID: id}, Act: approval.Act{Kind: "pay", Subject: "invoice " + hostile}, Text: "Pay " + hostile + "?",
			By: "anna", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour),
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestApproval(t *testing.T) {
	d := newDatabase(t)
	session := must[repo.Session](t)(d.store.Sessions().Create(t.Context(), repo.NewSession{})).ID
	for _, id := range []string{"a", "b", "c " + hostile} {
		d.ask(t, session, id)
	}
	if out := d.run("approval", "list", "--for", "bob", "--details"); strings.Count(out, "anna") != 3 || !strings.Contains(out, "Pay") {
		t.Errorf("listed: %s", out)
	}
	if out := d.run("approval", "list", "--for", "bob", "--json"); strings.Contains(out, "Pay") || !strings.Contains(out, `"deciders":["bob"]`) {
		t.Errorf("listed: %s", out)
	}
	if _, _, stderr := d.execute("approval", "list", "--for", "bob", "--limit", "2"); !strings.Contains(stderr, "--after ") {
		t.Errorf("no way to continue: %q", stderr)
	}
	d.refuses(exitUsage, "--for", "approval", "list")
	d.refuses(exitUsage, "empty", "approval", "list", "--for", "")
	d.refuses(exitUsage, "--as", "approval", "approve", session.String(), "a")
	d.refuses(exitUsage, "not an id", "approval", "approve", "x", "a", "--as", "bob")
	d.refuses(exitFailed, "not found", "approval", "approve", session.String(), "none", "--as", "bob")
	d.refuses(exitFailed, "not for \"anna\"", "approval", "deny", session.String(), "a", "--as", "anna")
	if out := d.run("approval", "approve", session.String(), "a", "--as", "bob", "--reason", "fine"); out != "the request is approved\n" {
		t.Errorf("approved: %s", out)
	}
	if out := d.run("approval", "deny", session.String(), "b", "--as", "bob", "--json"); !strings.Contains(out, `"status":"denied"`) {
		t.Errorf("denied: %s", out)
	}
	d.refuses(exitFailed, "is approved, by [\"bob\"]", "approval", "deny", session.String(), "a", "--as", "bob")
	if got := d.values("kind", "approval", "list", "--for", "bob"); got != "pay" {
		t.Errorf("left: %q", got)
	}
}
