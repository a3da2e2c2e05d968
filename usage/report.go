package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// Dimension is something by which a report tells uses apart.
type Dimension string

// The dimensions.
const (
	ByDay    Dimension = "day"
	ByModel  Dimension = "model"
	ByLabel1 Dimension = "label1" // Use.Labels[0]
	ByLabel2 Dimension = "label2" // Use.Labels[1]
)

// dimensions are in the order of the parts of a counter's key, of which the first one is the measure.
var dimensions = []Dimension{ByDay, ByModel, ByLabel1, ByLabel2}

// MaxDays is how many days a report, a list of scopes and Forget look at.
const MaxDays = 3660

// Query says what to sum.
type Query struct {
	From, To Day         // the first day, and the last one; both are required
	By       []Dimension // none: one sum
}

// Row is a sum of uses. What Query.By does not name is empty.
type Row struct {
	Day    Day
	Model  string
	Labels [2]string
	Uses   int64 // how many were counted
	repo.Usage
}

// Report returns the sums, ordered by day, model and labels. What was not used has no row. The counters of a day, or
// of several that have few, are of one moment; of a day with more than 10,000 counters, any that turns or Fold change
// meanwhile may be missing.
//
// state is the state of the store, of a view or of a transaction. Errors: InvalidError; RefusedError for a counter
// that was set by hand to no integer, or for a sum beyond 64 bits; errors of State.Read.
func Report(ctx context.Context, state repo.State, query Query) ([]Row, error) {
	days, err := daysOf(query.From, query.To)
	if err != nil {
		return nil, err
	}
	for _, by := range query.By {
		if !slices.Contains(dimensions, by) {
			return nil, &repo.InvalidError{Field: "by", Reason: "has something else than day, model, label1 and label2"}
		}
	}
	sums := map[[4]string]*[4]int64{}
	err = each(ctx, state, days, func(day Day, scope repo.ScopeState) error {
		for _, value := range scope.Values {
			parts, group := adapter.SplitKey(value.Key), [4]string{}
			measure := slices.Index(measures[:], parts[0])
			if measure < 0 || len(parts) != len(group) {
				continue // a later library's
			}
			parts[0] = string(day)
			for i, by := range dimensions {
				if slices.Contains(query.By, by) {
					group[i] = parts[i]
				}
			}
			if sums[group] == nil {
				sums[group] = &[4]int64{}
			}
			if err := add(&sums[group][measure], scope.Scope, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(sums))
	for _, g := range slices.SortedFunc(maps.Keys(sums), func(a, b [4]string) int { return slices.Compare(a[:], b[:]) }) {
		n := sums[g]
		used := repo.Usage{InputTokens: n[1], OutputTokens: n[2], Cost: repo.Cost(n[3])}
		rows = append(rows, Row{Day: Day(g[0]), Model: g[1], Labels: [2]string(g[2:]), Uses: n[0], Usage: used})
	}
	return rows, nil
}

// add adds a counter to a sum.
func add(sum *int64, scope repo.Scope, value repo.StateValue) error {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(value.Value)), 10, 64)
	if err != nil || n < 0 || *sum > math.MaxInt64-n {
		const reason = "is not a counter, or makes a sum of more than 64 bits"
		return &repo.RefusedError{Kind: "state", Scope: scope, Name: value.Key, Reason: reason}
	}
	*sum += n
	return nil
}

// daysOf returns the days from one to another.
func daysOf(from, to Day) (days []Day, err error) {
	first, err := from.check("from")
	if err != nil {
		return nil, err
	}
	last, err := to.check("to")
	switch {
	case err != nil:
		return nil, err
	case last.Before(first):
		return nil, &repo.InvalidError{Field: "to", Reason: "is before from"}
	case last.Sub(first) >= MaxDays*24*time.Hour:
		return nil, &repo.InvalidError{Field: "from", Reason: fmt.Sprintf("is more than %d days before to", MaxDays)}
	}
	for ; !first.After(last); first = first.AddDate(0, 0, 1) {
		days = append(days, DayOf(first, nil))
	}
	return days, nil
}

// each calls fn for the scopes of days. It reads the days at once that have about as many keys as one read returns,
// and a day that has more scope by scope, in pages.
func each(ctx context.Context, state repo.State, days []Day, fn func(Day, repo.ScopeState) error) error {
	const most, keys = 1000 / (shards + 1), 8000
	for size := 31; len(days) > 0; {
		part, found := days[:min(size, len(days))], 1
		scopes := scopesOf(part)
		states, err := state.Read(ctx, scopes...)
		if errors.Is(err, repo.ErrLimit) && len(part) > 1 {
			size = len(part) / 2
			continue
		}
		if errors.Is(err, repo.ErrLimit) {
			states, err, found = nil, nil, keys
			for i := 0; i < len(scopes) && err == nil; i++ {
				err = pages(ctx, state, scopes[i], func(s repo.ScopeState) error { return fn(part[0], s) })
			}
		}
		for i := 0; i < len(states) && err == nil; i++ {
			found += len(states[i].Values)
			err = fn(part[i/(shards+1)], states[i])
		}
		if err != nil {
			return err
		}
		days, size = days[len(part):], min(max(len(part)*keys/found, 1), most)
	}
	return nil
}

// pages calls fn for the pages of a scope.
func pages(ctx context.Context, state repo.State, scope repo.Scope, fn func(repo.ScopeState) error) error {
	for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
		list, err := state.List(ctx, scope, "", page)
		if err != nil {
			return err
		}
		read := repo.ScopeState{ScopeVersion: repo.ScopeVersion{Scope: scope, Version: list.Version}, Values: list.Values}
		if err := fn(read); err != nil || list.Next == "" {
			return err
		}
		page.After = list.Next
	}
}
