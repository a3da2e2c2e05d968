package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/retention"
)

func retentionCommand(world invocation) *urfave.Command {
	return group("retention", "remove what is older than a policy", "", retentionRunCommand(world))
}

// ages are given as NAMESPACE=AGE, separated by commas.
func readAges(text string) (map[string]time.Duration, error) {
	ages := map[string]time.Duration{}
	for part := range strings.SplitSeq(text, ",") {
		namespace, age, found := strings.Cut(part, "=")
		duration, err := time.ParseDuration(age)
		if !found || namespace == "" || err != nil || duration <= 0 {
			return nil, fmt.Errorf(": %q is not a NAMESPACE=AGE, such as local=2160h", part)
		}
		ages[namespace] = duration
	}
	return ages, nil
}

func retentionRunCommand(world invocation) *urfave.Command {
	var policy retention.Policy
	return leaf{
		name: "run", summary: "remove idle sessions, finished plans and old audit entries, and print how many",
		flags: []urfave.Flag{
			parsedFlag(&policy.Sessions, "sessions", "delete the sessions of a namespace that are idle for so long: `NAMESPACE=AGE,...`", readAges),
			parsedFlag(&policy.Plans, "plans", "delete the plans of a namespace that ended so long ago: `NAMESPACE=AGE,...`", readAges),
			durationFlag(&policy.Turns, "turns", "remove the records of turns of this `age`; 0: none", 0),
			durationFlag(&policy.Audit, "audit", "prune sealed audit entries of this `age`; 0: none", 0),
			stringFlag(&policy.Actor, "actor", "the operator's `name`, for the audit trail"),
			stringFlag(&policy.Reason, "reason", "the `reason`, for the audit trail"),
			boolFlag(&policy.DryRun, "dry-run", "count, and remove nothing"),
		},
		json: "print one JSON object instead of text",
		more: `Held sessions and plans stay, and so does what is in use. One run works at a time. You may
interrupt it; the next one continues. While a snapshot or a transaction is open for longer
than a minute, it pauses a second before each batch, since that keeps removed rows on disk.

Examples:
  agentstore retention run --sessions local=2160h --dry-run`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			return runRetention(ctx, invocation, store, policy)
		},
	}.command(world)
}

func runRetention(ctx context.Context, invocation invocation, store *agentstore.Store, policy retention.Policy) error {
	policy.Wait = waitForSnapshots(store)
	began := time.Now()
	said := began
	policy.Progress = func(r retention.Report) {
		if time.Since(said) < 5*time.Second {
			return
		}
		said = time.Now()
		_, _ = fmt.Fprintf(invocation.stderr, "after %s: %d sessions with %d messages, %d plans, %d rows of deleted sessions\n",
			said.Sub(began).Round(time.Second), r.Sessions, r.Messages, r.Plans, r.Rows)
	}
	report, err := retention.Run(ctx, store, policy)
	if err != nil {
		return invalidUsage(err)
	}
	if invocation.json {
		return printJSON(invocation.stdout, report)
	}
	verb := "removed"
	if policy.DryRun {
		verb = "would remove"
	}
	_, err = fmt.Fprintf(invocation.stdout, "%s %d sessions with %d messages, %d plans, %d records of turns, %d streams, %d audit entries; held %d, in use %d\n",
		verb, report.Sessions, report.Messages, report.Plans, report.Turns, report.Streams, report.Entries, report.Held, report.InUse)
	return err
}

// waitForSnapshots pauses while a snapshot or a transaction has been open for long.
func waitForSnapshots(store *agentstore.Store) func(context.Context) error {
	var looked time.Time
	var slow bool
	return func(ctx context.Context) error {
		if time.Since(looked) > 10*time.Second {
			looked, slow = time.Now(), false
			// A role without rights to know is not told, and a store in memory has no health.
			if health, err := store.Health(ctx); err == nil {
				for _, holder := range health.Holders {
					slow = slow || !holder.Since.IsZero() && time.Since(holder.Since) > time.Minute
				}
			}
		}
		if slow {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
}
