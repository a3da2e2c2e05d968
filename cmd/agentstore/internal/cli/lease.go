package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func leaseCommand(world invocation) *urfave.Command {
	return group("lease", "list and release leases", "", leaseListCommand(world), leaseReleaseCommand(world))
}

func leaseListCommand(world invocation) *urfave.Command {
	var filter repo.LeaseFilter
	var namespace, status string
	return list[repo.Lease]{
		leaf: leaf{
			name: "list", summary: "list leases, by kind and name, with their holders",
			flags: []urfave.Flag{
				viewFlag(&namespace),
				stringFlag(&filter.Kind, "kind", "only leases of this `kind`, such as session or plan"),
				stringFlag(&filter.Name, "name", "only leases of this `name`; the name of a session or a plan is its id"),
				stringFlag(&filter.Owner, "owner", "only leases of this `owner`"),
				oneOf(&status, "status", "only leases in this `status`", leaseHeld, leaseExpired),
			},
			details: "the times of acquisition, too",
			more: `Released leases are left out. An expired lease has lost its holder, and is listed until
it is acquired or released.

Examples:
  agentstore lease list --owner worker-3
  agentstore lease list --kind plan --status expired --json`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.Lease, string, error) {
			filter.Held, filter.Expired = status == leaseHeld, status == leaseExpired
			found, err := viewed(store, namespace).Leases().List(ctx, filter, page)
			return found.Items, found.Next, err
		},
		weigh:   func(l repo.Lease) int { return len(l.Key.Name) + len(l.Key.Kind) + len(l.Owner) },
		columns: headings("KIND", "NAME", "OWNER", "#FENCE", "STATUS", "EXPIRES", "ACQUIRED"),
		cells: func(l repo.Lease) []any {
			return []any{l.Key.Kind, l.Key.Name, l.Owner, l.Fence, leaseStatus(l), l.ExpiresAt, l.AcquiredAt}
		},
		line: func(l repo.Lease, _ bool) any { return leaseLine(l) },
	}.command(world)
}

const leaseHeld, leaseExpired = "held", "expired"

func leaseStatus(l repo.Lease) string {
	if l.Expired {
		return leaseExpired
	}
	return leaseHeld
}

func leaseLine(l repo.Lease) object {
	return object{
		{"kind", l.Key.Kind},
		{"name", l.Key.Name},
		{"owner", l.Owner},
		{"fence", l.Fence},
		{"status", leaseStatus(l)},
		{"acquired_at", l.AcquiredAt},
		{"expires_at", l.ExpiresAt},
	}
}

func leaseReleaseCommand(world invocation) *urfave.Command {
	var namespace, owner string
	var yes bool
	return leaf{
		name: "release", summary: "release one lease, or all of an owner, after asking",
		arguments: []string{"[KIND]", "[NAME]"},
		flags: []urfave.Flag{
			viewFlag(&namespace),
			stringFlag(&owner, "owner", "release all leases of this `owner`, instead of one"),
			boolFlag(&yes, "yes", "do not ask"),
		},
		json: "print one JSON object instead of text",
		more: `The context of repo.HoldLease ends soon. A holder that renews by itself notices at its next
renewal, and may work until then beside the next holder.

Examples:
  agentstore lease release plan 019c21f3-dc74-7000-8000-000000000001
  agentstore lease release --owner worker-3 --yes`,
		before: func(invocation *invocation) error {
			if len(invocation.args) == 1 || (len(invocation.args) == 0) == (owner == "") {
				return usageError{text: "lease release needs KIND and NAME, or --owner, and not both"}
			}
			return nil
		},
		onStore: func(ctx context.Context, invocation invocation, of *agentstore.Store) error {
			store := viewed(of, namespace)
			release := func() (int64, error) { return store.Leases().ReleaseAll(ctx, owner) }
			question := fmt.Sprintf("Release all leases of %q?", owner)
			if owner == "" {
				key := repo.LeaseKey{Kind: invocation.args[0], Name: invocation.args[1]}
				lease, err := findLease(ctx, store, key)
				if err != nil {
					return invalidUsage(err)
				}
				release = func() (int64, error) { return 1, store.Leases().Release(ctx, lease) }
				question = fmt.Sprintf("Release the lease %q %q of %q, which is %s?", key.Kind, key.Name, lease.Owner, leaseStatus(lease))
			}
			if !yes {
				if err := confirm(ctx, invocation, question+" [y/N] "); err != nil {
					return err
				}
			}
			released, err := release()
			if err != nil {
				return invalidUsage(err)
			}
			if invocation.json {
				return printJSON(invocation.stdout, object{{"released", released}})
			}
			_, err = fmt.Fprintf(invocation.stdout, "released: %d\n", released)
			return err
		},
	}.command(world)
}

// findLease returns the lease of a key. It is released by its token, so that a later
// lease of the key stays.
func findLease(ctx context.Context, store repo.Store, key repo.LeaseKey) (repo.Lease, error) {
	found, err := store.Leases().List(ctx, repo.LeaseFilter{Kind: key.Kind, Name: key.Name}, repo.Page{Limit: 1})
	switch {
	case err != nil:
		return repo.Lease{}, err
	case key.Kind == "" || key.Name == "":
		return repo.Lease{}, usageError{text: "KIND and NAME must not be empty"}
	case len(found.Items) == 0:
		return repo.Lease{}, fmt.Errorf("lease %q %q %w", key.Kind, key.Name, repo.ErrNotFound)
	}
	return found.Items[0], nil
}
