package postgres

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
)

// filtered returns a way for queries with optional filters, and rewrites the query for the filters that are set. An
// optional filter is written
//
//	AND ($3::text IS NULL OR e.actor = $3::text)
//
// on a line of its own, or begins with a CASE. A generic plan, which is made for any arguments, uses no index
// for it. So the filters that are null are left out, and the first of the
// others is made a plain condition: "AND e.actor = $3::text". The rest stay as they are, so that
// the plan uses the index of the first. (A custom plan, made for the arguments of each
// call, would use the indexes too, but chooses between them by what it guesses of the data.)
//
// Each combination of filters is a separate statement.
func filtered(by way) way {
	return func(ctx context.Context, statements func(db.DBTX) error) error {
		return by(ctx, func(q db.DBTX) error { return statements(through{DBTX: q, sql: setFilters}) })
	}
}

var (
	optionalFilter = regexp.MustCompile(`\n *AND \(\$(\d+)::\w+ IS NULL OR ((?:CASE(?s:.*?)END)?[^)\n]+)\)`)
	parameter      = regexp.MustCompile(`\$(\d+)`)
)

// filteredQuery is a query with only the filters that are set.
type filteredQuery struct {
	sql        string
	parameters []int // indexes into the arguments of the whole query
}

// combinations caches the filtered queries. Their number is bounded by the
// combinations of filters.
var combinations sync.Map // of combination to *filteredQuery

type combination struct {
	sql   string
	nulls uint64 // a bit for each argument that is null
}

func setFilters(sql string, args []any) (string, []any) {
	key := combination{sql: sql}
	for i, arg := range args {
		if isNull(arg) {
			key.nulls |= 1 << i
		}
	}
	found, ok := combinations.Load(key)
	if !ok {
		found, _ = combinations.LoadOrStore(key, key.query())
	}
	query := found.(*filteredQuery)
	return query.sql, query.with(args)
}

func (c combination) query() *filteredQuery {
	plain, query := "", &filteredQuery{}
	sql := optionalFilter.ReplaceAllStringFunc(c.sql, func(line string) string {
		parts := optionalFilter.FindStringSubmatch(line)
		switch {
		case c.nulls>>placeOf(parts[1])&1 == 1:
			return ""
		case plain == "", plain == parts[1]: // a filter may be there several times
			plain = parts[1]
			return "\n    AND " + parts[2]
		default:
			return line
		}
	})
	query.renumber(sql)
	return query
}

// renumber sets the query to the rest of a text. The server must be able to infer the
// type of each parameter, so none may be unused.
func (q *filteredQuery) renumber(sql string) {
	q.sql = parameter.ReplaceAllStringFunc(sql, func(old string) string {
		place := placeOf(old[1:])
		number := slices.Index(q.parameters, place)
		if number < 0 {
			number = len(q.parameters)
			q.parameters = append(q.parameters, place)
		}
		return "$" + strconv.Itoa(number+1)
	})
}

// with returns the arguments that are left.
func (q *filteredQuery) with(args []any) []any {
	used := make([]any, len(q.parameters))
	for i, place := range q.parameters {
		used[i] = args[place]
	}
	return used
}

// placeOf returns the index of a parameter's argument.
func placeOf(number string) int {
	n, _ := strconv.Atoi(number) // sqlc wrote the number
	return n - 1
}

// isNull reports whether a filter's argument is null. Filters have no other types.
func isNull(arg any) bool {
	switch arg := arg.(type) {
	case pgtype.UUID:
		return !arg.Valid
	case *string:
		return arg == nil
	}
	return false
}
