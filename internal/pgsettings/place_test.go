package pgsettings

import (
	"strings"
	"testing"
)

func TestCheckSchemaName(t *testing.T) {
	for _, name := range []string{"a", "Agents", `A "b", c's \ $1`, "☃", "pgx", strings.Repeat("x", 63)} {
		if reason := CheckSchemaName(name); reason != "" {
			t.Errorf("%q %s", name, reason)
		}
	}
	for _, name := range []string{"", "pg_x", "$user", "a\x00", "a\xff", strings.Repeat("x", 64)} {
		if CheckSchemaName(name) == "" {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestPinSchema(t *testing.T) {
	for _, test := range []struct {
		parameter, path, name string
		want                  string // empty: refused
	}{
		{"", "", "Agents", `"Agents"`},
		{"", "", `a"b`, `"a""b"`},
		{"search_path", "agents", "", `"agents"`},
		{"Search_Path", " Agents ", "", `"agents"`},
		{"search_path", `"Agents"`, "Agents", `"Agents"`},
		{"search_path", `"Agents"`, "agents", ""},
		{"search_path", "agents, public", "", "agents, public"},
		{"search_path", "agents, public", "agents", ""},
		{"search_path", `"$user"`, "", `"$user"`},
		{"search_path", `"agents`, "", `"agents`},
		{"search_path", "", "agents", ""},
	} {
		parameters := map[string]string{"application_name": "mine"}
		if test.parameter != "" {
			parameters[test.parameter] = test.path
		}
		taken := PinSchema(parameters, test.name)
		if taken != (test.want != "") || taken && (parameters["search_path"] != test.want || len(parameters) != 2) {
			t.Errorf("%s=%s, %q: %t, %v", test.parameter, test.path, test.name, taken, parameters)
		}
	}
}
