package schema

import (
	"errors"
	"strings"
	"testing"
)

func TestSchemaNames(t *testing.T) {
	const databaseURL = "postgres://app@127.0.0.1:1/agents?search_path=tenant"
	for _, name := range []string{"pg_agents", strings.Repeat("x", 64), "other"} {
		if _, err := newMigratorFromURL(databaseURL, Options{Schema: name}); !errors.Is(err, ErrSchemaName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := newMigratorFromURL(databaseURL, Options{Schema: "tenant"}); err != nil {
		t.Error(err)
	}
}

func TestGrantsInASchema(t *testing.T) {
	sql, err := Grants(Roles{Schema: `a"b`})
	if err != nil || !strings.HasPrefix(sql, "BEGIN;\n\nSET LOCAL search_path TO \"a\"\"b\";\n\nDO $do$") {
		t.Errorf("%v:\n%s", err, sql)
	}
	if _, err := Grants(Roles{Schema: "pg_x"}); !errors.Is(err, ErrSchemaName) {
		t.Errorf("an invalid name: %v", err)
	}
}

// The server's message may be in any language.
func TestQuoted(t *testing.T) {
	for _, message := range []string{
		`relation "sessions" already exists`, `Relation »sessions« existiert bereits`, `la relation « sessions » existe déjà`,
		`la relación «sessions» ya existe`, `отношение "sessions" уже существует`, `リレーション"sessions"はすでに存在します`,
		`function "sessions" already exists with same argument types`,
	} {
		if got := quoted(message); got != "sessions" {
			t.Errorf("%s: %q", message, got)
		}
	}
	if got := quoted("something else"); got != "" {
		t.Errorf("%q", got)
	}
}
