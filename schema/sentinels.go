package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Sentinels returns all sentinels, for callers that map each of them, for example to an
// exit code.
func Sentinels() []error {
	return []error{
		ErrBehind, ErrAhead, ErrGap, ErrUnknownVersion, ErrLocked, ErrBusy, ErrDataLoss, ErrPooled, ErrExists,
		ErrPermission, ErrSetting, ErrSchemaName, ErrURL, ErrInvalid, ErrUnavailable, ErrFailed,
	}
}

// sentinelError is an error of the driver, of goose or of the arguments, with its
// sentinel. Its text is the cause's.
type sentinelError struct{ sentinel, cause error }

func (e *sentinelError) Error() string   { return e.cause.Error() }
func (e *sentinelError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// invalid returns an error that matches ErrInvalid.
func invalid(format string, args ...any) error {
	return &sentinelError{ErrInvalid, fmt.Errorf("schema: "+format, args...)}
}

// withSentinel returns err so that it matches a sentinel or is the context's own. Every
// error of this package passes through it.
func withSentinel(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	for _, sentinel := range Sentinels() {
		if errors.Is(err, sentinel) {
			return err
		}
	}
	if ended := ctx.Err(); ended != nil {
		if errors.Is(err, ended) {
			return err
		}
		return &sentinelError{ended, err}
	}
	return &sentinelError{sentinelOf(err), err}
}

// sentinelOf returns the sentinel of an error of the driver or of goose.
func sentinelOf(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := refused.Code[:min(2, len(refused.Code))]; {
		case class == "28", refused.Code == insufficientRight: // the login; a privilege
			return ErrPermission
		case class == "08", class == "3D", class == "53", class == "57" && refused.Code != queryCanceled, class == "58":
			return ErrUnavailable
		}
		return ErrFailed
	}
	if isConnection(err) {
		return ErrUnavailable
	}
	return ErrFailed
}

// queryCanceled: by a timeout of the server's or by an administrator. The connection
// stays.
const queryCanceled = "57014"

// isConnection reports that there is no connection, or no longer.
func isConnection(err error) bool {
	for _, lost := range []error{sql.ErrConnDone, driver.ErrBadConn, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, lost) {
			return true
		}
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return refused || network || pgconn.Timeout(err)
}
