package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldestServer is the oldest PostgreSQL that everything works on, as
// server_version_num gives it. The tests run on it: docs/operations.md.
const oldestServer = 130000

const serverVersionSQL = `SELECT current_setting('server_version_num')::int`

// ErrServerVersion is that the server is older than this library works on
// ([ServerVersionError]).
var ErrServerVersion = errors.New("schema: the server is too old")

// ServerVersionError says what version the server is, as its setting
// server_version_num has it: 120022 is 12.22.
type ServerVersionError struct {
	Have, Want int
}

func (e ServerVersionError) Error() string {
	return fmt.Sprintf("schema: the server is too old: server_version is %d.%d, this library works from PostgreSQL %d on",
		e.Have/10000, e.Have%10000, e.Want/10000)
}

// Is makes errors.Is(err, ErrServerVersion) true.
func (e ServerVersionError) Is(target error) bool { return target == ErrServerVersion }

// CheckServer returns a [ServerVersionError] if the server is older than this
// library works on. One that is newer than any known when this was built is taken.
func CheckServer(ctx context.Context, querier Querier) error {
	var version int
	// Not prepared: a transaction pooler must get as far as the error that names it.
	if err := querier.QueryRow(ctx, serverVersionSQL, pgx.QueryExecModeExec).Scan(&version); err != nil {
		return fmt.Errorf("schema: read the server's version: %w", err)
	}
	return checkVersion(version)
}

func checkVersion(version int) error {
	if version < oldestServer {
		return ServerVersionError{Have: version, Want: oldestServer}
	}
	return nil
}
