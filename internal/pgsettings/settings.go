// Package pgsettings knows which settings of a PostgreSQL session agentstore needs. It
// pins some of them on agentstore's own connections, and refuses unsupported values of
// the others.
package pgsettings

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrSetting matches every [Error].
var ErrSetting = errors.New("unsupported setting of the database session")

// Error names a setting of the server, database, role or session that agentstore
// cannot work under.
type Error struct {
	// Name and Value are the setting's, such as client_encoding and LATIN1.
	Name, Value string
	// Reason says what is needed, and why.
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the database setting %s is %q: %s", e.Name, e.Value, e.Reason)
}

// Is makes errors.Is(err, ErrSetting) true.
func (e *Error) Is(target error) bool { return target == ErrSetting }

// pinned are settings for the startup message, which PgBouncer also accepts there and keeps for
// each client. They override the settings of the role, the database and the server.
var pinned = map[string]string{
	"client_encoding":             "UTF8",
	"DateStyle":                   "ISO, MDY",
	"TimeZone":                    "UTC",
	"standard_conforming_strings": "on",
}

// Pin sets the pinned settings in the parameters of the startup message. It replaces
// existing ones regardless of upper and lower case.
func Pin(parameters map[string]string) {
	for given := range parameters {
		for name := range pinned {
			if strings.EqualFold(given, name) {
				delete(parameters, given)
			}
		}
	}
	maps.Copy(parameters, pinned)
}

// where says in which query modes a setting matters.
type where int

const (
	always where = iota
	// inText: in the modes exec and simple_protocol, which send results and arguments
	// as text.
	inText
	// inSimple: in the mode simple_protocol, which makes arguments part of the statement.
	inSimple
)

// need is a requirement on the value of a setting.
type need struct {
	name   string
	where  where
	fits   func(value string) bool
	reason string
}

func is(want string) func(string) bool { return func(value string) bool { return value == want } }

// reported are the settings that the server reports to the driver whenever they change,
// so that a check needs no query.
var reported = []need{
	{
		"server_encoding", always, is("UTF8"),
		"the database must be made with the encoding UTF8: others cannot hold every text",
	},
	{"client_encoding", always, is("UTF8"), "it must be UTF8: the server would take texts for others"},
	{"standard_conforming_strings", always, is("on"), "it must be on: a backslash would change what a statement says"},
	{
		"DateStyle", inText, func(value string) bool { return strings.HasPrefix(value, "ISO") },
		"it must be ISO where results travel as text (default_query_exec_mode exec and simple_protocol)",
	},
}

// asked are the settings that need a query.
var asked = []need{
	{
		"bytea_output", inText, is("hex"),
		"it must be hex where results travel as text (default_query_exec_mode exec and simple_protocol)",
	},
	{
		"array_nulls", inText, is("on"),
		"it must be on where arguments travel as text (default_query_exec_mode exec and simple_protocol): " +
			"a missing value would be stored as the word NULL",
	},
	{
		"transform_null_equals", inSimple, is("off"),
		"it must be off where arguments are part of the statement (default_query_exec_mode simple_protocol)",
	},
	{
		"session_replication_role", always, func(value string) bool { return value != "replica" },
		"foreign keys and cascades do not work under it",
	},
	{
		"extra_float_digits", inText, func(value string) bool { return value >= "1" },
		"it must be 1 or more where results travel as text (default_query_exec_mode exec and simple_protocol): bounds of " +
			"arguments would be rounded",
	},
}

func (n need) check(value string, at where) error {
	if n.where > at || value == "" || n.fits(value) { // empty: unknown to this server, or not reported
		return nil
	}
	return &Error{Name: n.name, Value: value, Reason: n.reason}
}

// Reported checks the settings that the server has reported, without a round trip. It
// accepts a nil connection, and settings that a pooler does not pass on.
func Reported(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	at := modeOf(conn)
	for _, need := range reported {
		if err := need.check(conn.PgConn().ParameterStatus(need.name), at); err != nil {
			return err
		}
	}
	return nil
}

// modeKey is the key under which a connection's mode is cached: conn.Config copies the
// whole configuration.
const modeKey = "agentstore.settings_matter"

func modeOf(conn *pgx.Conn) where {
	data := conn.PgConn().CustomData()
	if known, ok := data[modeKey].(where); ok {
		return known
	}
	at := whereOf(conn.Config().DefaultQueryExecMode)
	data[modeKey] = at
	return at
}

func whereOf(mode pgx.QueryExecMode) where {
	switch mode {
	case pgx.QueryExecModeSimpleProtocol:
		return inSimple
	case pgx.QueryExecModeExec:
		return inText
	default:
		return always
	}
}
