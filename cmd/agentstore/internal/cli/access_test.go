package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// inNamespace has each command that is asked in one namespace, with arguments that name what another one has. Its answer is an error,
// unless quiet: then it finds nothing.
var inNamespace = map[string]struct {
	arguments string
	quiet     bool
}{
	"session list": {quiet: true}, "session show": {arguments: "--key k --messages 9 --contents"}, "session fork": {arguments: "--key k --at 0"},
	"session tail": {arguments: "--key k --contents"}, "session export": {arguments: "--key k"}, "session delete": {arguments: "--key k --yes"},
	"plan list": {quiet: true}, "action list": {quiet: true}, "state list": {arguments: "app", quiet: true}, "state get": {arguments: "k app"},
	"state erase": {arguments: "app --yes", quiet: true}, "lease list": {quiet: true}, "lease release": {arguments: "job a --yes"},
	"usage": {quiet: true}, "approval list": {arguments: "--for bob", quiet: true}, "approval approve": {arguments: "SESSION call --as bob"}, "approval deny": {arguments: "SESSION call --as bob"},
	"stream show": {arguments: "s"}, "stream tail": {arguments: "s --contents"},
	"erase subject": {arguments: "--owner nobody --key-file /none"}, // tests/postgres, package erase
	"inspect":       {arguments: "--listen none"},                   // adapters/tests/access
}

// eachCommand calls a function with every command that does something.
func eachCommand(do func(path string, command *urfave.Command)) {
	var walk func(path []string, command *urfave.Command)
	walk = func(path []string, command *urfave.Command) {
		if path = append(slices.Clone(path), command.Name); len(command.Commands) == 0 {
			do(strings.Join(path, " "), command)
		}
		for _, below := range command.Commands {
			walk(path, below)
		}
	}
	for _, command := range root(invocation{env: func(string) string { return "" }}).Commands {
		walk(nil, command)
	}
}

// A command with --namespace tells nothing of another namespace, and changes nothing there.
func TestCommandsOfOtherNamespaces(t *testing.T) {
	const secret = "s3cret"
	d := newDatabase(t)
	ctx, a := t.Context(), d.store.In("a")
	session := must[repo.Session](t)(a.Sessions().Create(ctx, repo.NewSession{Key: "k", Owner: "jane", Metadata: []byte(`{"x":"` + secret + `"}`)}))
	must[[]repo.Message](t)(a.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: secret}))
	must[[]repo.ScopeVersion](t)(a.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{Name: "app"}, Key: "k", Value: []byte(`"` + secret + `"`)}}))
	must[repo.Action](t)(a.Actions().Create(ctx, repo.NewAction{Name: "a/" + secret}))
	must[repo.Plan](t)(a.Plans().Use(ctx, "a/"+secret, repo.UseAction{Name: secret}))
	must[repo.Lease](t)(a.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: "a"}, Owner: secret}))
	turn := repo.Turn{SessionID: session.ID}
	if err := usage.Count(&turn, usage.Use{Day: usage.DayOf(time.Now(), nil), Model: secret}); err != nil {
		t.Fatal(err)
	}
	must[repo.AppendedTurn](t)(a.Sessions().AppendTurn(ctx, turn))
	stream := must[repo.Stream](t)(a.Streams().Open(ctx, repo.NewStream{Key: "s", Owner: secret}))
	must[int64](t)(a.Streams().Append(ctx, stream, []byte(secret)))
	approvals := must[*approval.Approvals](t)(approval.New(d.store, "a", approval.Options{}))
	if err := a.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := approvals.Ask(ctx, tx, approval.NewRequest{
			Ref: approval.Ref{SessionID: session.ID, ID: "call"}, Act: approval.Act{Kind: "pay", Subject: secret}, Text: secret,
			By: "anna", Deciders: []string{"bob"}, Until: time.Now().Add(time.Hour),
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	theirs := func() string {
		state := must[repo.StatePage](t)(a.State().List(ctx, repo.Scope{Name: "app"}, "", repo.Page{}))
		sessions := must[repo.List[repo.Session]](t)(a.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{}))
		leases := must[repo.List[repo.Lease]](t)(a.Leases().List(ctx, repo.LeaseFilter{}, repo.Page{}))
		plans := must[repo.List[repo.Plan]](t)(a.Plans().List(ctx, repo.PlanFilter{}, repo.Page{}))
		request := must[approval.Request](t)(approvals.Get(ctx, approval.Ref{SessionID: session.ID, ID: "call"}))
		return fmt.Sprint(state, sessions, leases, plans, request, must[repo.Stream](t)(a.Streams().Get(ctx, "s")))
	}
	before, known := theirs(), map[string]bool{}
	eachCommand(func(path string, command *urfave.Command) {
		if !slices.ContainsFunc(command.Flags, func(f urfave.Flag) bool { return f.Names()[0] == "namespace" }) {
			return
		}
		known[path] = true
		ask, is := inNamespace[path]
		if !is {
			t.Errorf("%s has no entry", path)
			return
		}
		for _, namespace := range []string{"b", ""} {
			code, stdout, stderr := d.execute(append(strings.Fields(path+" "+strings.ReplaceAll(ask.arguments, "SESSION", session.ID.String())), "--namespace", namespace)...)
			if strings.Contains(stdout+stderr, secret) {
				t.Errorf("%s in %q tells %s%s", path, namespace, stdout, stderr)
			}
			if quiet := ask.quiet && namespace != ""; quiet != (code == exitOK) {
				t.Errorf("%s in %q: code %d, %s%s", path, namespace, code, stdout, stderr)
			}
			if after := theirs(); after != before {
				t.Fatalf("%s in %q has changed %s to %s", path, namespace, before, after)
			}
		}
	})
	for path := range inNamespace {
		if !known[path] {
			t.Errorf("%s has no --namespace", path)
		}
	}
}

// An argument that is given, but empty, is refused.
func TestEmptyArguments(t *testing.T) {
	d := newDatabase(t)
	eachCommand(func(path string, command *urfave.Command) {
		for n := range len(strings.Fields(command.ArgsUsage)) {
			arguments := strings.Fields(path)
			for range n + 1 {
				arguments = append(arguments, "")
			}
			if code, stdout, _ := d.execute(arguments...); code == exitOK {
				t.Errorf("%s with %d empty arguments: %s", path, n+1, stdout)
			}
		}
	})
}
