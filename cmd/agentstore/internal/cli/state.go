package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func stateCommand(world invocation) *urfave.Command {
	return group("state", "list, show and erase state", "", stateListCommand(world), stateGetCommand(world), stateEraseCommand(world))
}

func scopeFlag(to *repo.ID) urfave.Flag {
	return idFlag(to, "session", "the own state of the session with this `id`, instead of SCOPE")
}

// scopeOf returns the scope that the argument at place, or --session, names.
func scopeOf(invocation invocation, place int, session repo.ID) (repo.Scope, error) {
	scope := repo.Scope{SessionID: session}
	if len(invocation.args) > place {
		scope.Name = invocation.args[place]
	}
	if (scope.Name == "") == session.IsZero() {
		return scope, usageError{text: "state needs a SCOPE, or --session, and not both"}
	}
	return scope, nil
}

func stateListCommand(world invocation) *urfave.Command {
	var session repo.ID
	var namespace string
	var prefix string
	return list[repo.StateValue]{
		leaf: leaf{
			name: "list", summary: "list the keys of a scope, in the order of their bytes",
			arguments: []string{"[SCOPE]"},
			flags:     []urfave.Flag{viewFlag(&namespace), scopeFlag(&session), stringFlag(&prefix, "prefix", "only keys that begin with this `text`")},
			details:   "values, too",
			more: `SCOPE is the name of a shared scope.

Examples:
  agentstore state list app/shop --prefix cart/
  agentstore state list --session 019c21f3-dc74-7000-8000-000000000001 --json --details`,
		},
		page: func(ctx context.Context, invocation invocation, store *agentstore.Store, page repo.Page) ([]repo.StateValue, string, error) {
			scope, err := scopeOf(invocation, 0, session)
			if err != nil {
				return nil, "", err
			}
			found, err := viewed(store, namespace).State().List(ctx, scope, prefix, page)
			return found.Values, found.Next, err
		},
		weigh:   func(v repo.StateValue) int { return len(v.Key) + len(v.Value) },
		columns: headings("KEY", "#VERSION", "UPDATED", "VALUE"),
		cells:   func(v repo.StateValue) []any { return []any{v.Key, v.Version, v.UpdatedAt, v.Value} },
		line: func(v repo.StateValue, details bool) any {
			if !details {
				return stateLine(v)[:3]
			}
			return stateLine(v)
		},
	}.command(world)
}

func stateLine(v repo.StateValue) object {
	return object{{"key", v.Key}, {"version", v.Version}, {"updated_at", v.UpdatedAt}, {"value", v.Value}}
}

func stateGetCommand(world invocation) *urfave.Command {
	var session repo.ID
	var namespace string
	return leaf{
		name: "get", summary: "show one key with its value",
		arguments: []string{"KEY", "[SCOPE]"}, flags: []urfave.Flag{viewFlag(&namespace), scopeFlag(&session)},
		json: "print one JSON object instead of text",
		more: `SCOPE is the name of a shared scope.

Examples:
  agentstore state get cart app/shop
  agentstore state get step --session 019c21f3-dc74-7000-8000-000000000001 --json | jq .value`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			scope, err := scopeOf(invocation, 1, session)
			if err != nil {
				return err
			}
			value, err := viewed(store, namespace).State().Get(ctx, scope, invocation.args[0])
			if err != nil {
				return invalidUsage(err)
			}
			return printOne(invocation, stateLine(value), []field{
				{"Key", value.Key}, {"Version", value.Version}, {"Updated", value.UpdatedAt}, {"Value", value.Value},
			})
		},
	}.command(world)
}

func stateEraseCommand(world invocation) *urfave.Command {
	var namespace string
	var yes bool
	return leaf{
		name: "erase", summary: "delete a shared scope with all of its keys, after asking",
		arguments: []string{"SCOPE"},
		flags:     []urfave.Flag{viewFlag(&namespace), boolFlag(&yes, "yes", "do not ask")},
		json:      "print one JSON object instead of text",
		more: `The audit trail keeps an entry with the scope's id and the number of keys, without
its name. A session's own state is deleted with the session.

Examples:
  agentstore state erase app/shop/user/4711`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			scope := repo.Scope{Name: invocation.args[0]}
			if !yes {
				if err := confirm(ctx, invocation, fmt.Sprintf("Erase the scope %q with all of its keys, for good? [y/N] ", scope.Name)); err != nil {
					return err
				}
			}
			keys, err := viewed(store, namespace).State().Erase(ctx, scope.Name)
			if err != nil {
				return invalidUsage(err)
			}
			if invocation.json {
				return printJSON(invocation.stdout, object{{"keys", keys}})
			}
			_, err = fmt.Fprintf(invocation.stdout, "scope erased: %d keys\n", keys)
			return err
		},
	}.command(world)
}
