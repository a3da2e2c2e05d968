// Package usage counts what turns use, by day, model and up to two labels of the caller, and sums it for a bill or a
// page of figures. The counters are keys of shared state that a turn increments: so a turn that is stored once is
// counted once, and one that is not stored is not counted. docs/usage.md has the cases.
//
// The counters belong to the store that stores the turn: a view has its own.
package usage

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/repo"
)

// Day is a date such as "2026-03-31".
type Day string

// DayOf returns the day of a moment in a zone, such as time.UTC. Nil: UTC. Use the same zone always, with all
// processes.
func DayOf(at time.Time, zone *time.Location) Day {
	if zone == nil {
		zone = time.UTC
	}
	return Day(at.In(zone).Format(time.DateOnly))
}

// check reads a day.
func (d Day) check(field string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, string(d))
	if err != nil || day.Year() < 1 {
		return day, &repo.InvalidError{Field: field, Reason: "is not a date such as 2006-01-02"}
	}
	return day, nil
}

// Use is what a turn has used of one model. No amount is negative.
type Use struct {
	// Day is the day that is counted. All attempts at a turn need the same: take it once, with DayOf, when the turn
	// begins.
	Day   Day
	Model string // empty: a model without a name
	// Labels are what else is told apart, such as a tenant, a feature or a team. Each combination of a model and labels
	// has counters of its own on each day, so they must be few: up to hundreds. They outlive sessions and erasures, so
	// they must not name a person. Model and labels have at most 1,000 bytes together; a slash or a tilde counts twice.
	Labels [2]string
	repo.Usage
}

// shards is how many scopes have the counters of a day, so that a transaction that is open for long keeps only some
// turns waiting. It never changes: an attempt at a turn has the scope of the one before.
const shards = 4

// measures are what is counted, as the first part of a counter's key.
var measures = [4]string{"uses", "input_tokens", "output_tokens", "cost"}

// Count adds to turn.State the increments that count what the turn has used. Call it once for each turn, with all that
// it has used, and before AppendTurn; attempts add the same turn again. turn.Usage stays: that is the session's usage
// and its budget.
//
// Set turn.ID: a turn without any id is stored, and counted, once for each call of AppendTurn. The ID, or else
// SessionID, decides which of the scopes of the day has the counters, and must be set before.
//
// Errors: InvalidError, which leaves the turn as it was.
func Count(turn *repo.Turn, used ...Use) error {
	state := slices.Clone(turn.State)
	for i, use := range used {
		path := fmt.Sprintf("used[%d].", i)
		if err := use.check(path); err != nil {
			return err
		}
		scope := scopeOf(use.Day, shardOf(turn))
		for m, amount := range [4]int64{1, use.InputTokens, use.OutputTokens, int64(use.Cost)} {
			key := use.key(measures[m])
			at := slices.IndexFunc(state, func(c repo.StateChange) bool { return c.Scope == scope && c.Key == key })
			switch {
			case amount < 0, at >= 0 && state[at].By > math.MaxInt64-amount:
				return &repo.InvalidError{Field: path + measures[m], Reason: "is negative, or makes too large a sum"}
			case amount == 0:
			case at < 0:
				state = append(state, repo.StateChange{Scope: scope, Key: key, Op: repo.StateIncrement, By: amount})
			default:
				state[at].By += amount
			}
		}
	}
	turn.State = state
	return nil
}

// check checks the day and the names.
func (u Use) check(path string) error {
	_, err := u.Day.check(path + "day")
	key := u.key(measures[2]) // the longest
	if err == nil && (len(key) > repo.MaxKeyBytes || !utf8.ValidString(key) || strings.ContainsRune(key, 0)) {
		err = &repo.InvalidError{Field: path + "labels", Reason: "are too long with the model, or not UTF-8 without NUL"}
	}
	return err
}

// key is the key of a counter.
func (u Use) key(measure string) string {
	return repo.JoinKey(measure, u.Model, u.Labels[0], u.Labels[1])
}

// shardOf returns which scope of its day a turn counts in. It is the same in each attempt.
func shardOf(turn *repo.Turn) int {
	return int(sha256.Sum256([]byte(cmp.Or(turn.ID, turn.SessionID.String())))[0] % shards)
}

func scopeOf(day Day, shard int) repo.Scope {
	return repo.Scope{Name: repo.JoinKey("agentstore", "usage", string(day), strconv.Itoa(shard))}
}

// scopesOf returns all scopes with counters of days: for each day the shards, and behind them the scope of Fold.
func scopesOf(days []Day) (scopes []repo.Scope) {
	for _, day := range days {
		for shard := range shards + 1 {
			scopes = append(scopes, scopeOf(day, shards-shard))
		}
	}
	return scopes
}
