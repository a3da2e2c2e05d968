package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// The violation of a named constraint, or of another table's, is not a missing month.
func TestIsNoPartition(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "23514", TableName: "audit_entries"}, true},
		{fmt.Errorf("x: %w", &pgconn.PgError{Code: "23514", TableName: "audit_entries_202611"}), true},
		{&pgconn.PgError{Code: "23514", TableName: "audit_entries", ConstraintName: "audit_entries_type_check"}, false},
		{&pgconn.PgError{Code: "23514", TableName: "sessions"}, false},
		{&pgconn.PgError{Code: "23505", TableName: "audit_entries"}, false},
		{errors.New("x"), false},
	} {
		if got := isNoPartition(test.err); got != test.want {
			t.Errorf("%+v: %t", test.err, got)
		}
	}
}
