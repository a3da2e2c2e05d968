package schema

import (
	_ "embed" // grants.sql
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed grants.sql
var grantsSQL string

// Roles are the names of the roles of least privilege, beside the owner, who
// migrates. An empty name is the default one.
type Roles struct {
	// Application is what a service logs in as; agentstore_application.
	Application string
	// Reader may read everything and write nothing; agentstore_reader.
	Reader string
	// Audit may write the audit trail and read only that; agentstore_audit.
	Audit string
}

// maxNameBytes is PostgreSQL's: it cuts off what is longer, and the grant would
// go to another role.
const maxNameBytes = 63

// Grants returns the SQL that makes the roles, where they do not exist, and
// grants each what it needs. It needs no database. Names are quoted; one that is
// longer than 63 bytes, has a NUL or a $, or is given twice, is an error.
func Grants(roles Roles) (string, error) {
	named := []struct{ placeholder, name, standard string }{
		{"application", roles.Application, "agentstore_application"},
		{"reader", roles.Reader, "agentstore_reader"},
		{"audit", roles.Audit, "agentstore_audit"},
	}
	var pairs []string
	taken := map[string]bool{}
	for _, role := range named {
		name := role.name
		if name == "" {
			name = role.standard
		}
		switch {
		case len(name) > maxNameBytes:
			return "", fmt.Errorf("schema: the name of the %s role is longer than %d bytes", role.placeholder, maxNameBytes)
		case strings.ContainsAny(name, "\x00$"): // $ could end the quoting of the block
			return "", fmt.Errorf("schema: the name of the %s role has a NUL or a $", role.placeholder)
		case taken[name]:
			return "", fmt.Errorf("schema: the %s role has the name of another one", role.placeholder)
		}
		taken[name] = true
		pairs = append(pairs,
			`:"`+role.placeholder+`"`, pgx.Identifier{name}.Sanitize(),
			`:'`+role.placeholder+`'`, literal(name))
	}
	_, statements, _ := strings.Cut(grantsSQL, "\n\n") // the comment explains the placeholders too
	return strings.NewReplacer(pairs...).Replace(statements), nil
}

// literal quotes a string, whatever standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
