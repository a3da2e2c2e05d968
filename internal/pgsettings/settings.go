// Package pgsettings is what agentstore needs of the settings of a session with
// PostgreSQL: what it pins on connections of its own, and what it refuses.
package pgsettings

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrSetting is what every [Error] is.
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

// pinned are settings that PgBouncer, too, takes in the startup message and keeps
// for each of its clients. What is asked for there beats what the role, the
// database and the server's configuration say.
var pinned = map[string]string{
	"client_encoding":             "UTF8",
	"DateStyle":                   "ISO, MDY",
	"TimeZone":                    "UTC",
	"standard_conforming_strings": "on",
}

// Pin puts them into the parameters of the startup message, in the place of what
// is there in any spelling.
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

// where a setting matters.
type where int

const (
	always where = iota
	// inText: where results and arguments travel as text, in the modes exec and
	// simple_protocol.
	inText
	// inSimple: where arguments are part of the statement.
	inSimple
)

// need is a setting that must have a value.
type need struct {
	name   string
	where  where
	fits   func(value string) bool
	reason string
}

func is(want string) func(string) bool { return func(value string) bool { return value == want } }

// reported are the needs that the server tells the driver of whenever they change:
// to look at them costs nothing.
var reported = []need{
	{"server_encoding", always, is("UTF8"), "the database must be made with the encoding UTF8: others cannot hold every text"},
	{"client_encoding", always, is("UTF8"), "it must be UTF8: the server would take texts for others"},
	{"standard_conforming_strings", always, is("on"), "it must be on: a backslash would change what a statement says"},
	{"DateStyle", inText, func(value string) bool { return strings.HasPrefix(value, "ISO") },
		"it must be ISO where results travel as text (default_query_exec_mode exec and simple_protocol)"},
}

// asked are the needs that only a query can find out.
var asked = []need{
	{"bytea_output", inText, is("hex"), "it must be hex where results travel as text (default_query_exec_mode exec and simple_protocol)"},
	{"array_nulls", inText, is("on"), "it must be on where arguments travel as text (default_query_exec_mode exec and simple_protocol): a missing value would be stored as the word NULL"},
	{"transform_null_equals", inSimple, is("off"), "it must be off where arguments are part of the statement (default_query_exec_mode simple_protocol)"},
	{"session_replication_role", always, func(value string) bool { return value != "replica" }, "foreign keys and cascades do not work under it"},
}

func (n need) check(value string, at where) error {
	if n.where > at || value == "" || n.fits(value) { // empty: not known here
		return nil
	}
	return &Error{Name: n.name, Value: value, Reason: n.reason}
}

// Reported checks what the server told the driver of the connection's session. It
// costs no round trip. A nil connection, and settings that a pooler does not pass
// on, are taken for good.
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

// modeKey is where a connection keeps its mode: to read a connection's
// configuration copies it.
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
