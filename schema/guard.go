package schema

import (
	"context"
	"database/sql"
	_ "embed" // guard_0003.sql
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// guard0003 is what the Down of version 3, which landed without it, does not look
// for: a database that is still at that version has no later Down that does.
//
//go:embed guard_0003.sql
var guard0003 string

// guard refuses to revert a version while there is something to lose that its own
// Down does not see. It looks right before, in a transaction of its own.
func (m *Migrator) guard(ctx context.Context, db *sql.DB, step Step) error {
	if step.Direction != DirectionDown || step.Version != 3 || !strings.HasSuffix(step.Name, "_audit") || m.options.AllowDataLoss {
		return nil
	}
	var table string
	err := readOnly(ctx, db, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, guard0003).Scan(&table) })
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42P01" { // undefined table: there is nothing to lose
		return nil
	}
	if err == nil && table != "" {
		err = fmt.Errorf("%w: table %s still holds rows", ErrDataLoss, table)
	}
	return err
}
