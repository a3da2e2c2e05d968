package postgres

import (
	"reflect"
	"testing"
)

func TestWithParts(t *testing.T) {
	t.Parallel()
	const sql = "SELECT $1\n    -- with a\nAND $2\n        -- with b\n    AND $3\n        -- end of b\nAND $1\n    -- end of a\n    -- with b\nAND $4\n    -- end of b\nEND $5"
	for _, test := range []struct {
		parts []string
		want  string
		args  []any
	}{
		{nil, "SELECT $1\nEND $2", []any{1, 5}},
		{[]string{"a"}, "SELECT $1\nAND $2\nAND $1\nEND $3", []any{1, 2, 5}},
		{[]string{"b"}, "SELECT $1\nAND $2\nEND $3", []any{1, 4, 5}},
		{[]string{"a", "b"}, "SELECT $1\nAND $2\n    AND $3\nAND $1\nAND $4\nEND $5", []any{1, 2, 3, 4, 5}},
	} {
		got, args := withParts(sql, []any{1, 2, 3, 4, 5}, test.parts...)
		if got != test.want || !reflect.DeepEqual(args, test.args) {
			t.Errorf("%v: %s\nand %v, want\n%s\nand %v", test.parts, got, args, test.want, test.args)
		}
	}
}
