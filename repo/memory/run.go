package memory

import (
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// way is one of a handle's ways to lock its tables: read or write.
type way func(context.Context) (*tables, error)

// unless returns a way that ends at err, if there is one: what was found wrong with the arguments.
func unless(err error, way way) way {
	if err == nil {
		return way
	}
	return func(context.Context) (*tables, error) { return nil, err }
}

// run runs an operation under the lock and returns its result.
func run[Answer any](ctx context.Context, way way, operation func(*tables) (Answer, error)) (answer Answer, err error) {
	t, err := way(ctx)
	if err != nil {
		return answer, err
	}
	defer t.mu.Unlock()
	answer, err = operation(t)
	return answer, rules.ErrorOutOfView(err)
}

// runOn runs an operation on the row that find finds: a session, an action or a plan.
func runOn[Key, Row, Answer any](
	ctx context.Context, way way, find func(*tables, Key) (*Row, error), key Key,
	operation func(*tables, *Row) (Answer, error),
) (Answer, error) {
	return run(ctx, way, func(t *tables) (answer Answer, err error) {
		row, err := find(t, key)
		if err != nil {
			return answer, err
		}
		return operation(t, row)
	})
}

// exec runs an operation without a result.
func exec(ctx context.Context, way way, operation func(*tables) error) error {
	_, err := run(ctx, way, func(t *tables) (struct{}, error) { return struct{}{}, operation(t) })
	return err
}

// each converts each row to a value.
func each[Row, Value any](rows []Row, valueOf func(Row) Value) []Value {
	values := make([]Value, len(rows))
	for i, row := range rows {
		values[i] = valueOf(row)
	}
	return values
}

// pageOf makes a page of the first of the rows that were found. It sorts no others.
func pageOf[Row, Filter, Place, Entity any](
	list rules.List[Filter, Place, Entity], found []Row, compare func(a, b Row) int, entityOf func(Row) Entity,
) (repo.List[Entity], error) {
	sorted, most := []Row{}, list.Limit+1 // one more tells that there is a next page
	for _, row := range found {
		if at, _ := slices.BinarySearchFunc(sorted, row, compare); at < most {
			sorted = slices.Insert(sorted[:min(len(sorted), most-1)], at, row)
		}
	}
	return rules.PageOf(list, sorted, func(row Row) (Entity, error) { return entityOf(row), nil })
}

// same is the entity of a row that is one.
func same[Entity any](row Entity) Entity { return row }
