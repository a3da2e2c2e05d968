package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func sessionCommand(world invocation) *urfave.Command {
	return group("session", "list, show, export, import and delete sessions", "",
		sessionListCommand(world),
		sessionShowCommand(world),
		sessionExportCommand(world),
		sessionImportCommand(world),
		sessionDeleteCommand(world),
	)
}

func sessionListCommand(world invocation) *urfave.Command {
	var flags listFlags
	var filter repo.SessionFilter
	var from, before string
	return leaf{
		name: "list", summary: "list the sessions of a namespace, newest first",
		flags: flags.flags("metadata, too",
			stringFlag(&filter.Namespace, "namespace", "those of this `namespace` (otherwise: "+repo.DefaultNamespace+")"),
			stringFlag(&filter.Actor, "actor", "only those of this `actor`"),
			stringFlag(&from, "created-from", "only those made at this `time` (RFC 3339, or 2006-01-02) or later"),
			stringFlag(&before, "created-before", "only those made before this `time`"),
		),
		more: `Examples:
  agentstore session list --namespace shop --created-from 2026-01-01
  agentstore session list --json | jq -r 'select(.message_count > 100) | .id'`,
		run: func(ctx context.Context, invocation invocation) (err error) {
			if filter.CreatedFrom, err = timeOf("created-from", from); err != nil {
				return err
			}
			if filter.CreatedBefore, err = timeOf("created-before", before); err != nil {
				return err
			}
			return withStore(ctx, invocation, flags.databaseURL, func(store *agentstore.Store) error {
				return sessionList(store, filter, flags.details).print(ctx, invocation, flags)
			})
		},
	}.command(world)
}

func sessionList(store *agentstore.Store, filter repo.SessionFilter, details bool) list[repo.Session] {
	l := list[repo.Session]{
		page: func(ctx context.Context, page repo.Page) ([]repo.Session, repo.Cursor, error) {
			found, err := store.Sessions().List(ctx, filter, page)
			return found.Sessions, found.Next, err
		},
		weigh: func(s repo.Session) int { return len(s.Metadata) + 100*len(s.Plans) },
		columns: []column{
			{name: "ID"}, {name: "CREATED"}, {name: "UPDATED"}, {name: "MESSAGES", number: true},
			{name: "COST", number: true}, {name: "PLANS", number: true}, {name: "ACTOR"},
		},
		cells: func(s repo.Session) []string {
			cells := []string{
				s.ID.String(), when(s.CreatedAt), when(s.UpdatedAt), strconv.FormatInt(s.MessageCount, 10),
				s.Usage.Cost.String(), strconv.Itoa(len(s.Plans)), s.Actor,
			}
			if details {
				cells = append(cells, string(s.Metadata))
			}
			return cells
		},
		line: func(s repo.Session) any { return sessionLine(s, details) },
	}
	if details {
		l.columns = append(l.columns, column{name: "METADATA"})
	}
	return l
}

type sessionJSON struct {
	ID                repo.ID         `json:"id"`
	Namespace         string          `json:"namespace"`
	Actor             string          `json:"actor,omitempty"`
	AutomationProfile string          `json:"automation_profile,omitempty"`
	Usage             usageJSON       `json:"usage"`
	Budget            *repo.Cost      `json:"budget_nanos,omitempty"`
	MessageCount      int64           `json:"message_count"`
	Plans             []linkedJSON    `json:"plans"`
	CreatedAt         stamp           `json:"created_at"`
	UpdatedAt         stamp           `json:"updated_at"`
	Metadata          json.RawMessage `json:"metadata,omitempty"`
}

type usageJSON struct {
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	Cost         repo.Cost `json:"cost_nanos"`
}

type linkedJSON struct {
	ID    repo.ID        `json:"id"`
	Phase repo.Phase     `json:"phase"`
	State repo.PlanState `json:"state"`
}

func sessionLine(s repo.Session, details bool) sessionJSON {
	line := sessionJSON{
		ID: s.ID, Namespace: s.Namespace, Actor: s.Actor, AutomationProfile: s.AutomationProfile,
		Usage:  usageJSON{s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.Cost},
		Budget: s.Budget, MessageCount: s.MessageCount, Plans: []linkedJSON{},
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt),
	}
	for _, plan := range s.Plans {
		line.Plans = append(line.Plans, linkedJSON{plan.ID, plan.Phase, plan.State})
	}
	if details {
		line.Metadata = s.Metadata
	}
	return line
}

func sessionShowCommand(world invocation) *urfave.Command {
	var flags messageFlags
	return leaf{
		name: "show", summary: "show one session, and its messages on request",
		arguments: []string{"ID"}, flags: flags.flags(),
		more: `Examples:
  agentstore session show 01KGGZ7Q3M0000000000000001
  agentstore session show 01KGGZ7Q3M0000000000000001 --last 20 --contents
  agentstore session show 01KGGZ7Q3M0000000000000001 --messages --from 100 --limit 50`,
		run: func(ctx context.Context, invocation invocation) error {
			id, err := argumentID(invocation)
			if err != nil {
				return err
			}
			if err := flags.check(); err != nil {
				return err
			}
			return withStore(ctx, invocation, flags.databaseURL, func(store *agentstore.Store) error {
				session, err := store.Sessions().Get(ctx, id)
				if err != nil {
					return err
				}
				if err := printSession(invocation, session, flags.details, flags.json); err != nil || !flags.wanted() {
					return err
				}
				if !flags.json {
					printSection(invocation.stdout, "Messages:")
				}
				return printMessages(ctx, invocation, store, session, flags)
			})
		},
	}.command(world)
}

func printSession(invocation invocation, s repo.Session, details, asJSON bool) error {
	if asJSON {
		return printJSON(invocation.stdout, sessionLine(s, details))
	}
	fields := []field{
		{"ID", s.ID.String()}, {"Namespace", s.Namespace}, {"Actor", s.Actor}, {"Automation profile", s.AutomationProfile},
		{"Messages", strconv.FormatInt(s.MessageCount, 10)},
		{"Tokens", fmt.Sprintf("%d in, %d out", s.Usage.InputTokens, s.Usage.OutputTokens)},
		{"Cost", s.Usage.Cost.String()},
	}
	if s.Budget != nil {
		fields = append(fields, field{"Budget", s.Budget.String()})
	}
	for _, plan := range s.Plans {
		fields = append(fields, field{"Plan", plan.ID.String() + "  " + stageText(plan.Stage)})
	}
	fields = append(fields, field{"Created", when(s.CreatedAt)}, field{"Updated", when(s.UpdatedAt)})
	if details {
		fields = append(fields, field{"Metadata", string(s.Metadata)})
	}
	return printFields(invocation, fields...)
}
