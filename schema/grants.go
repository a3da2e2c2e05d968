package schema

import (
	"cmp"
	_ "embed" // grants.sql
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

//go:embed grants.sql
var grantsSQL string

// Roles are the names of the roles with the least privileges. The owner, which
// migrates, is not among them. An empty name means the default.
type Roles struct {
	// Application is the role of services; agentstore_application.
	Application string
	// Reader may read everything and write nothing; agentstore_reader.
	Reader string
	// Audit may write the audit trail, and read nothing else; agentstore_audit.
	Audit string

	// Schema is the schema of the tables. Empty: the search_path of the session
	// that runs the grants decides.
	Schema string
}

// maxNameBytes is PostgreSQL's limit. Longer names are truncated, so that another
// role would get the privileges.
const maxNameBytes = 63

// Grants returns the SQL that creates the roles that do not exist, and grants each
// the privileges that it needs. It does not use a database. Names are quoted; a name
// that is longer than 63 bytes, contains a NUL or a $, or is given twice, is an
// error that matches [ErrInvalid]. The error for a schema that cannot be used is
// [ErrSchemaName].
func Grants(roles Roles) (string, error) {
	named := []struct{ placeholder, name, standard string }{
		{"application", roles.Application, "agentstore_application"},
		{"reader", roles.Reader, "agentstore_reader"},
		{"audit", roles.Audit, "agentstore_audit"},
	}
	var pairs []string
	taken := map[string]bool{}
	for _, role := range named {
		name := cmp.Or(role.name, role.standard)
		switch {
		case len(name) > maxNameBytes:
			return "", invalid("the name of the %s role is longer than %d bytes", role.placeholder, maxNameBytes)
		case strings.ContainsAny(name, "\x00$"): // $ could end the quoting of the block
			return "", invalid("the name of the %s role contains a NUL or a $", role.placeholder)
		case taken[name]:
			return "", invalid("another role has the name of the %s role, too", role.placeholder)
		}
		taken[name] = true
		pairs = append(pairs,
			`:"`+role.placeholder+`"`, pgx.Identifier{name}.Sanitize(),
			`:'`+role.placeholder+`'`, literal(name))
	}
	_, statements, _ := strings.Cut(grantsSQL, "\n\n") // the comment explains the placeholders too
	statements = strings.NewReplacer(pairs...).Replace(statements)
	if roles.Schema != "" {
		if reason := pgsettings.CheckSchemaName(roles.Schema); reason != "" {
			return "", fmt.Errorf("%w: it %s", ErrSchemaName, reason)
		}
		statements = strings.Replace(statements, "BEGIN;\n",
			"BEGIN;\n\nSET LOCAL search_path TO "+pgx.Identifier{roles.Schema}.Sanitize()+";\n", 1)
	}
	return statements, nil
}

// literal quotes a string so that it is valid under both values of
// standard_conforming_strings.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
