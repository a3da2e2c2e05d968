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

// SettingEnv holds a [Setting] as JSON: every test then runs under it.
const SettingEnv = "AGENTSTORE_TEST_SETTING"

// Setting is what a legal deployment may have otherwise than a new server has
// it. The tests know nothing of it.
type Setting struct {
	// Server is configuration of each server that is started, by name.
	Server map[string]string `json:"server,omitempty"`
	// Database is configuration of each test's database (ALTER DATABASE SET).
	Database map[string]string `json:"database,omitempty"`
	// Schema is where the tables are, instead of public; the database's
	// search_path names it.
	Schema string `json:"schema,omitempty"`
	// Owner has the tables belong to a role that may do nothing else, whose URL
	// tests get instead of a superuser's.
	Owner bool `json:"owner,omitempty"`
	// Clock is what the clock of the server does.
	Clock Stepping `json:"clock,omitempty"`

	broken error
}

// Merge adds another setting to this one.
func (s Setting) Merge(other Setting) Setting {
	merged := Setting{
		Server: map[string]string{}, Database: map[string]string{},
		Schema: s.Schema + other.Schema, Owner: s.Owner || other.Owner, Clock: s.Clock + other.Clock,
	}
	for _, from := range []Setting{s, other} {
		maps.Copy(merged.Server, from.Server)
		maps.Copy(merged.Database, from.Database)
	}
	return merged
}

// String is the setting as SettingEnv holds it.
func (s Setting) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("pgtest: a setting is not JSON: " + err.Error())
	}
	return string(text)
}

// setting is this process's.
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

// server is each "name=value" for the server's command line.
func (s Setting) server() []string { return pairs(s.Server) }

func pairs(settings map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, name+"="+settings[name])
	}
	return list
}

// create makes a database and returns a URL of it, in the setting.
func (s Setting) create(ctx context.Context, server *Server, name, template string) (string, error) {
	owner, databaseURL := "", WithDatabase(server.URL, name)
	if s.Owner {
		role, ownerURL, err := makeOwner(ctx, server, databaseURL)
		if err != nil {
			return "", err
		}
		owner, databaseURL = " OWNER "+role, ownerURL
	}
	if err := administer(ctx, server, "CREATE DATABASE "+name+" TEMPLATE "+template+owner); err != nil {
		return "", err
	}
	settings := maps.Clone(s.Database)
	if s.Schema != "" {
		if settings == nil {
			settings = map[string]string{}
		}
		settings["search_path"] = pgx.Identifier{s.Schema}.Sanitize()
		// As the owner, so that the schema is the owner's.
		// All may look into it, as into public.
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
		return takesWrites(databaseURL)
	}
	return databaseURL, nil
}

// takesWrites has the URL say so, without which a database that is read-only by
// default is refused: docs/operations.md.
func takesWrites(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("a server's URL does not parse")
	}
	query := u.Query()
	query.Set("default_transaction_read_only", "off")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// makeOwner makes the role that databases belong to, if it is not there. It has
// the superuser's password, which the server's URL holds.
func makeOwner(ctx context.Context, server *Server, databaseURL string) (role, ownerURL string, err error) {
	role = "agentstore_test_owner"
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", "", fmt.Errorf("a server's URL does not parse")
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword(role, password)
	// Two processes may get here at once.
	sql := "DO $make$ BEGIN CREATE ROLE " + role + " LOGIN PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "';" +
		" EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $make$"
	return role, u.String(), administer(ctx, server, sql)
}
