package faults

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// explain describes what is wrong with an illegal history, for people.
func explain(history []operation, last []repo.ID) string {
	var text strings.Builder
	short := func(id repo.ID) string { return id.String()[18:] }
	describe := func(o operation) string {
		var ids []string
		for _, id := range o.Messages {
			ids = append(ids, fmt.Sprintf("%s@%d", short(id), slices.Index(last, id)))
		}
		return fmt.Sprintf("[%d.%d] %s %s messages %v expected %d first %d next %d from %d limit %d read %d, %d to %d",
			o.Client, o.Number, o.Kind, o.Outcome, ids, o.Expected, o.First, o.Next, o.From, o.Limit, len(o.Read), o.Call, o.Return)
	}
	sent := map[repo.ID][]operation{}
	for _, o := range history {
		if len(o.Messages) > 0 {
			sent[o.Messages[0]] = append(sent[o.Messages[0]], o)
		}
	}
	for _, o := range history {
		at := -1
		if len(o.Messages) > 0 {
			at = slices.Index(last, o.Messages[0])
		}
		wrong := ""
		switch {
		case o.Outcome == done && len(o.Messages) > 0 && int64(at) != o.First:
			wrong = "acknowledged elsewhere"
		case o.Outcome == done && o.Kind == appendAt && o.First != o.Expected:
			wrong = "not where it was expected"
		case (o.Outcome == refused || o.Outcome == conflicted) && at >= 0 && !slices.ContainsFunc(sent[o.Messages[0]], func(p operation) bool {
			return p.Outcome == done || p.Outcome == unknown
		}):
			wrong = "refused, yet written"
		case o.Outcome == conflicted && at >= 0:
			wrong = "conflicted, and written by another call"
		}
		if wrong == "" {
			continue
		}
		fmt.Fprintln(&text, wrong)
		for _, p := range sent[o.Messages[0]] {
			fmt.Fprintln(&text, "   ", describe(p))
		}
	}
	return text.String()
}
