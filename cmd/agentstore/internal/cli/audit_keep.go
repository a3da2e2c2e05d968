package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func auditPrune(ctx context.Context, invocation invocation, flags auditFlags, _ []string, store *agentstore.Store) error {
	prune := repo.AuditPrune{DryRun: flags.dryRun, Actor: flags.actor, Reason: flags.reason}
	var err error
	if prune.Before, err = timeOf("before", flags.before); err != nil {
		return err
	}
	if prune.Before.IsZero() {
		return usageError{text: "audit prune needs --before: entries that occurred before that time are removed"}
	}
	for kind := range strings.SplitSeq(flags.types, ",") {
		if kind != "" {
			// The application's own types are not known to this binary.
			if err := repo.RegisterEventType(repo.EventType(kind)); err != nil {
				return usageError{text: "--types: " + err.Error()}
			}
			prune.Types = append(prune.Types, repo.EventType(kind))
		}
	}
	pruned, err := store.Trail().Prune(ctx, prune)
	if err != nil {
		return err
	}
	if flags.json {
		return printJSON(invocation.stdout, struct {
			Pruned   int64 `json:"pruned"`
			Held     int64 `json:"held"`
			Unsealed int64 `json:"unsealed"`
			DryRun   bool  `json:"dry_run"`
		}{pruned.Entries, pruned.Held, pruned.Unsealed, flags.dryRun})
	}
	verb := "were"
	if flags.dryRun {
		verb = "would be"
	}
	fmt.Fprintf(invocation.stdout, "%d entries %s pruned; %d are on hold, %d not sealed yet\n", pruned.Entries, verb, pruned.Held, pruned.Unsealed)
	return nil
}
