package schema

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

// SettingError names a setting of the server, the database, the role or the
// session that agentstore cannot work under, its value, and what is needed. It is
// [ErrSetting].
type SettingError = pgsettings.Error

// ErrSetting says that agentstore cannot work under a setting of the database
// session ([SettingError]).
var ErrSetting = pgsettings.ErrSetting

const placeSQL = `
SELECT current_setting('default_transaction_read_only') = 'on', current_setting('search_path'), coalesce(current_schema(), ''),
       current_user, coalesce((SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                               WHERE c.oid = to_regclass('agentstore_migrations')), '')`

// checkSettings refuses a session in which a version would be run otherwise than
// it was written, or its tables made elsewhere than the others.
func checkSettings(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("schema: connect: %w", err)
	}
	defer conn.Close()
	err = conn.Raw(func(driverConn any) error {
		direct := driverConn.(*stdlib.Conn).Conn()
		if err := pgsettings.Ask(ctx, direct); err != nil {
			return err
		}
		return checkPlace(ctx, direct)
	})
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// checkPlace refuses a session that takes no writes, and one whose search_path
// begins with a schema that is not there: new tables would be made in a later one,
// perhaps as a second copy of those that are in the schema that was meant.
func checkPlace(ctx context.Context, conn *pgx.Conn) error {
	place, err := readPlace(ctx, conn)
	if err != nil {
		return err
	}
	if place.readOnly {
		return pgsettings.ReadOnly()
	}
	return place.check()
}

// place is where tables would be made.
type place struct {
	readOnly bool
	// current is the schema in which tables would be made, versions the one that
	// the version table is in. Either is empty where there is none.
	path, current, user, versions string
}

func readPlace(ctx context.Context, querier Querier) (p place, err error) {
	if err := querier.QueryRow(ctx, placeSQL).Scan(&p.readOnly, &p.path, &p.current, &p.user, &p.versions); err != nil {
		return place{}, fmt.Errorf("read the session's settings: %w", err)
	}
	return p, nil
}

func (p place) check() error {
	refuse := func(reason string, args ...any) error {
		return &SettingError{Name: "search_path", Value: p.path, Reason: fmt.Sprintf(reason, args...)}
	}
	user := ""
	if p.current == p.user { // "$user" is there
		user = p.user
	}
	current, versions := p.current, p.versions
	switch first := pgsettings.FirstSchema(p.path, user); {
	case current == "":
		return refuse("none of its schemas is there and may be used")
	case first != current:
		return refuse("its first schema, %q, is not there or may not be used, and tables would be made in %q", first, current)
	case strings.Contains(current, "{literal}") || strings.Contains(current, "$body$"):
		// Version 6 puts the schema's name into functions that are written so.
		return refuse("a schema's name may not hold {literal} or $body$")
	case versions != "" && versions != current:
		return refuse("the schema's tables are in %q, and new ones would be made in %q", versions, current)
	}
	return nil
}
