package pgsettings

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Place says where a session finds tables, and creates new ones.
type Place struct {
	// ReadOnly says that transactions are read-only by default.
	ReadOnly bool
	// current is the schema in which tables would be created, versions the one that
	// has the version table. Each is empty if there is none.
	path, current, user, versions string
}

// PlaceSQL is the query whose row [ReadPlace] scans. It is no query of sqlc's, because
// it is also sent through database/sql, before the tables exist.
const PlaceSQL = `
SELECT current_setting('default_transaction_read_only') = 'on', current_setting('search_path'),
    coalesce(current_schema(), ''),
       current_user, coalesce((SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                               WHERE c.oid = to_regclass('agentstore_migrations')), '')`

// CheckPlace scans the row of [PlaceSQL], and checks it as Check does, or as CheckSchema does for a schema that was
// asked for.
func CheckPlace(row interface{ Scan(into ...any) error }, schema string) error {
	place, err := ReadPlace(row)
	switch {
	case err != nil:
		return err
	case schema != "":
		return place.CheckSchema(schema)
	}
	return place.Check()
}

// ReadPlace scans the row of [PlaceSQL].
func ReadPlace(row interface{ Scan(into ...any) error }) (p Place, err error) {
	if err := row.Scan(&p.ReadOnly, &p.path, &p.current, &p.user, &p.versions); err != nil {
		return Place{}, fmt.Errorf("read the session's settings: %w", err)
	}
	return p, nil
}

// Check refuses a search_path whose first schema does not exist. New tables would be created in a
// later one, perhaps as a second copy of the ones in the intended schema. It also refuses a path on
// which the version table is in another schema than new tables.
func (p Place) Check() error {
	switch first := p.First(); {
	case p.current == "":
		return p.refuse("none of its schemas exists and may be used")
	case first != p.current:
		return p.refuse("its first schema, %q, does not exist or may not be used, and tables would be created in %q", first,
			p.current)
	case p.versions != "" && p.versions != p.current:
		return p.refuse("agentstore's tables are in %q, and new ones would be created in %q", p.versions, p.current)
	}
	return nil
}

// CheckSchema refuses a search_path that does not begin with the schema that was asked
// for, for example behind a pooler that ignores the startup parameter. The schema need
// not exist yet.
func (p Place) CheckSchema(name string) error {
	switch first := p.First(); {
	case first != name:
		return p.refuse("it must begin with %q, the schema that was asked for: a pooler did not pass that on, or another "+
			"role or hook changed it", name)
	case p.versions != "" && p.versions != name:
		return p.refuse("it must lead to the schema %q alone, which was asked for, and leads to tables in %q", name,
			p.versions)
	}
	return nil
}

// First returns the first schema of the search_path, which need not exist.
func (p Place) First() string {
	if p.current == p.user { // the schema "$user" exists
		return FirstSchema(p.path, p.user)
	}
	return FirstSchema(p.path, "")
}

func (p Place) refuse(reason string, args ...any) error {
	return &Error{Name: searchPath, Value: p.path, Reason: fmt.Sprintf(reason, args...)}
}

const searchPath = "search_path"

// maxNameBytes is PostgreSQL's limit: it truncates longer names.
const maxNameBytes = 63

// CheckSchemaName says why a schema's name is not supported, as a phrase that completes
// "the schema …". It returns an empty text if the name is valid.
func CheckSchemaName(name string) string {
	switch {
	case name == "" || len(name) > maxNameBytes:
		return fmt.Sprintf("is not of 1 to %d bytes", maxNameBytes)
	case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
		return "is not a text without NUL"
	case strings.HasPrefix(name, "pg_"):
		return "begins with pg_, which PostgreSQL keeps for itself"
	case name == "$user":
		return "is $user, which a search_path takes for the role's name"
	}
	return ""
}

// PinSchema makes the schema the whole search_path in the startup message, which
// overrides the role's, the database's and the server's. If name is empty it uses the
// search_path in the parameters, if that is a single schema, so that both ways to ask
// for a schema have the same effect. It reports false if the parameters ask for another.
func PinSchema(parameters map[string]string, name string) bool {
	for parameter, path := range parameters {
		if !strings.EqualFold(parameter, searchPath) {
			continue
		}
		given := onlySchema(path)
		if name == "" {
			name = given
		}
		if given != name {
			return false
		}
		if name != "" {
			delete(parameters, parameter)
		}
	}
	if name != "" {
		parameters[searchPath] = pgx.Identifier{name}.Sanitize()
	}
	return true
}

var unquoted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// onlySchema returns the schema of a search_path that is a single supported schema, and
// an empty text for any other path.
func onlySchema(path string) string {
	path = strings.TrimSpace(path)
	name := FirstSchema(path, "")
	if CheckSchemaName(name) != "" || !unquoted.MatchString(path) && path != (pgx.Identifier{name}).Sanitize() {
		return ""
	}
	return name
}

// RefusedSchema replaces err by one that explains the cause if a pooler refused a
// search_path in the startup message. It returns other errors unchanged.
func RefusedSchema(err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.Code != protocolViolation || !strings.Contains(refused.Message, searchPath) {
		return err
	}
	return fmt.Errorf("%w: %w", &Error{Name: searchPath, Reason: "a pooler does not take it in the startup message: " +
		"have it ignored there (PgBouncer: ignore_startup_parameters = search_path), " +
		"and give the role the same search_path (ALTER ROLE … SET search_path)"}, refused)
}

// protocolViolation is the code with which PgBouncer refuses a parameter.
const protocolViolation = "08P01"
