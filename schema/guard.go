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

// guard0003 looks for rows that the Down of version 3 drops without a check. Version 3
// has been released without it, and on a database at that version no later Down checks
// for them.
//
//go:embed guard_0003.sql
var guard0003 string

// guard refuses to revert version 3 if rows would be lost that its Down does not check
// for. It looks just before the Down runs, in a separate transaction.
func (m *Migrator) guard(ctx context.Context, db *sql.DB, step Step) error {
	if step.Direction != DirectionDown || step.Version != 3 || !strings.HasSuffix(step.Name, "_audit") || m.options.AllowDataLoss {
		return nil
	}
	var table string
	err := readOnly(ctx, db, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, guard0003).Scan(&table) })
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42P01" { // undefined_table
		return nil
	}
	if err == nil && table != "" {
		err = fmt.Errorf("%w: table %s still holds rows", ErrDataLoss, table)
	}
	return err
}
