package pgtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// SettingEnv names the environment variable with a [Setting], as JSON, under which all
// tests run.
const SettingEnv = "AGENTSTORE_TEST_SETTING"

// Setting is how a supported deployment may differ from a new server. The tests do not
// depend on it.
type Setting struct {
	// Server has settings of each server that is started, by name.
	Server map[string]string `json:"server,omitempty"`
	// Database has settings of each test's database (ALTER DATABASE SET).
	Database map[string]string `json:"database,omitempty"`
	// Schema is the schema of the tables, instead of public. The database's search_path
	// names it.
	Schema string `json:"schema,omitempty"`
	// Owner makes a role without other rights the owner of the databases. Tests get its
	// URL instead of a superuser's.
	Owner bool `json:"owner,omitempty"`
	// Clock says how the server's clock steps.
	Clock Stepping `json:"clock,omitempty"`
	// Parameters are added to the databases' URLs.
	Parameters map[string]string `json:"parameters,omitempty"`

	broken error
}

// Merge adds another setting to this one.
func (s Setting) Merge(other Setting) Setting {
	merged := Setting{
		Server: map[string]string{}, Database: map[string]string{}, Parameters: map[string]string{},
		Schema: s.Schema + other.Schema, Owner: s.Owner || other.Owner, Clock: s.Clock + other.Clock,
	}
	for _, from := range []Setting{s, other} {
		maps.Copy(merged.Server, from.Server)
		maps.Copy(merged.Database, from.Database)
		maps.Copy(merged.Parameters, from.Parameters)
	}
	return merged
}

// String returns the setting as the value of SettingEnv.
func (s Setting) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("pgtest: a setting is not JSON: " + err.Error())
	}
	return string(text)
}

// setting returns this process's setting.
var setting = sync.OnceValue(func() (s Setting) {
	text := os.Getenv(SettingEnv)
	if text == "" {
		return s
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		s.broken = fmt.Errorf("%s: %w", SettingEnv, err)
	}
	return s
})

func (s Setting) check() error { return s.broken }

// server returns the server's settings, each as "name=value".
func (s Setting) server() []string { return pairs(s.Server) }

func pairs(settings map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, name+"="+settings[name])
	}
	return list
}

// create makes a database under the setting and returns its URL.
func (s Setting) create(ctx context.Context, server *Server, name, template string) (string, error) {
	owner, databaseURL := "", WithDatabase(server.URL, name)
	if s.Owner {
		role, ownerURL, err := makeOwner(ctx, server, databaseURL)
		if err != nil {
			return "", err
		}
		owner, databaseURL = " OWNER "+role, ownerURL
	}
	if err := copyDatabase(ctx, server, name, template, owner); err != nil {
		return "", err
	}
	settings := maps.Clone(s.Database)
	if s.Schema != "" {
		if settings == nil {
			settings = map[string]string{}
		}
		settings["search_path"] = pgx.Identifier{s.Schema}.Sanitize()
		// With the owner's URL, so that it owns the schema. As with public, all roles
		// may use it.
		quoted := pgx.Identifier{s.Schema}.Sanitize()
		create := "CREATE SCHEMA IF NOT EXISTS " + quoted + "; GRANT USAGE ON SCHEMA " + quoted + " TO PUBLIC"
		if err := administer(ctx, &Server{URL: databaseURL}, create); err != nil {
			return "", err
		}
	}
	for _, setting := range pairs(settings) {
		variable, value, _ := strings.Cut(setting, "=")
		if variable != "search_path" { // its value is a list of identifiers
			value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		}
		if err := administer(ctx, server, "ALTER DATABASE "+name+" SET "+variable+" = "+value); err != nil {
			return "", err
		}
	}
	if s.Database["default_transaction_read_only"] == "on" {
		// The URL must allow writes: otherwise such a database is refused (see
		// docs/operations.md).
		databaseURL = WithParameter(databaseURL, "default_transaction_read_only", "off")
	}
	for name, value := range s.Parameters {
		databaseURL = WithParameter(databaseURL, name, value)
	}
	return databaseURL, nil
}

// makeOwner creates the role that owns the databases, if it does not exist. Its password
// is the superuser's, which is in the server's URL.
func makeOwner(ctx context.Context, server *Server, databaseURL string) (role, ownerURL string, err error) {
	role = "agentstore_test_owner"
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", "", fmt.Errorf("a server's URL does not parse")
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword(role, password)
	// Several processes may do this at once.
	sql := "DO $make$ BEGIN CREATE ROLE " + role + " LOGIN PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "';" +
		" EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $make$"
	return role, u.String(), administer(ctx, server, sql)
}
