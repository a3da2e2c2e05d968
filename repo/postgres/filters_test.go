package postgres

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

func TestSetFilters(t *testing.T) {
	t.Parallel()
	const list = "SELECT id FROM x e\nWHERE e.at < $1 AND (e.at, e.id) < ($1, $2::uuid)" +
		"\n    AND ($3::uuid IS NULL OR e.plan_id = $3::uuid)" +
		"\n    AND ($4::text IS NULL OR e.actor = $4::text)" +
		"\n    AND ($5::text IS NULL OR e.type = $5::text)" +
		"\nORDER BY e.at\nLIMIT $6\n"
	const begin, end = "SELECT id FROM x e\nWHERE e.at < $1 AND (e.at, e.id) < ($1, $2::uuid)", "\nORDER BY e.at\nLIMIT "
	none, id, name := (*string)(nil), pgtype.UUID{Valid: true}, new(string)
	for _, test := range []struct {
		plan        pgtype.UUID
		actor, kind *string
		want        string
		args        []any
	}{
		{pgtype.UUID{}, none, none, begin + end + "$3\n", []any{1, 2, 6}},
		{id, none, none, begin + "\n    AND e.plan_id = $3::uuid" + end + "$4\n", []any{1, 2, id, 6}},
		{pgtype.UUID{}, none, name, begin + "\n    AND e.type = $3::text" + end + "$4\n", []any{1, 2, name, 6}},
		{pgtype.UUID{}, name, name, begin + "\n    AND e.actor = $3::text\n    AND ($4::text IS NULL OR e.type = $4::text)" + end + "$5\n", []any{1, 2, name, name, 6}},
		{id, name, name, begin + "\n    AND e.plan_id = $3::uuid\n    AND ($4::text IS NULL OR e.actor = $4::text)\n    AND ($5::text IS NULL OR e.type = $5::text)" + end + "$6\n", []any{1, 2, id, name, name, 6}},
	} {
		sql, args := setFilters(list, []any{1, 2, test.plan, test.actor, test.kind, 6})
		if sql != test.want || !reflect.DeepEqual(args, test.args) {
			t.Errorf("%s\nand %v, want\n%s\nand %v", sql, args, test.want, test.args)
		}
	}
}
