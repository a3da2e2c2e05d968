package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/usage"
)

// usageDays is how many days a report has if no flag says so.
const usageDays = 30

// readDimensions reads what a report is by.
func readDimensions(text string) (by []usage.Dimension, err error) {
	known := []string{string(usage.ByDay), string(usage.ByModel), string(usage.ByLabel1), string(usage.ByLabel2)}
	for name := range strings.SplitSeq(text, ",") {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf(": %q is not one of %s%s", name, strings.Join(known, ", "), didYouMean("", name, known))
		case slices.Contains(by, usage.Dimension(name)):
			return nil, fmt.Errorf(": %s is given twice", name)
		}
		by = append(by, usage.Dimension(name))
	}
	return by, nil
}

func usageCommand(world invocation) *urfave.Command {
	var namespace, from, to string
	query := usage.Query{By: []usage.Dimension{usage.ByDay}}
	return leaf{
		name: "usage", summary: "sum what turns have used, by day, model and labels",
		flags: []urfave.Flag{
			viewFlag(&namespace),
			parsedFlag(&query.By, "by", "a row for each of these, which are separated by commas: `day,model,label1,label2` (otherwise: day)", readDimensions),
			stringFlag(&from, "from", fmt.Sprintf("the first `day`, such as 2026-03-01 (otherwise: %d days up to the last one)", usageDays)),
			stringFlag(&to, "to", "the last `day` (otherwise: today, UTC)"),
		},
		json: "print one JSON object on each line instead of a table",
		more: `It shows what package usage has counted. The labels are what the service counts by.

Examples:
  agentstore usage --by day,model --from 2026-03-01 --to 2026-03-31
  agentstore usage --by label1 --namespace shop --json | jq -r '[.label1, .cost_nanos] | @tsv'`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if query.To = usage.Day(to); to == "" {
				query.To = usage.DayOf(time.Now(), time.UTC)
			}
			if query.From = usage.Day(from); from == "" {
				if last, err := time.Parse(time.DateOnly, string(query.To)); err == nil {
					query.From = usage.DayOf(last.AddDate(0, 0, 1-usageDays), time.UTC)
				}
			}
			rows, err := usage.Report(ctx, viewed(store, namespace).State(), query)
			if err != nil {
				return invalidUsage(err)
			}
			return printUsage(invocation, query.By, rows)
		},
	}.command(world)
}

func printUsage(invocation invocation, by []usage.Dimension, rows []usage.Row) error {
	var names []string
	for _, dimension := range by {
		names = append(names, strings.ToUpper(string(dimension)))
	}
	table := newTable(invocation, headings(append(names, "#USES", "#INPUT", "#OUTPUT", "#COST")...)...)
	for _, row := range rows {
		line, cells := object{}, []any{}
		for _, dimension := range by {
			value := map[usage.Dimension]string{
				usage.ByDay: string(row.Day), usage.ByModel: row.Model, usage.ByLabel1: row.Labels[0], usage.ByLabel2: row.Labels[1],
			}[dimension]
			line, cells = append(line, member{string(dimension), value}), append(cells, value)
		}
		if !invocation.json {
			table.row(texts(append(cells, row.Uses, row.InputTokens, row.OutputTokens, row.Cost)...))
			continue
		}
		line = append(line, object{
			{"uses", row.Uses}, {"input_tokens", row.InputTokens}, {"output_tokens", row.OutputTokens}, {"cost_nanos", row.Cost},
		}...)
		if err := printJSON(invocation.stdout, line); err != nil {
			return err
		}
	}
	if invocation.json {
		return nil
	}
	return table.flush()
}
