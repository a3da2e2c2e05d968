package pgtest

import "testing"

// A database, and one that is copied from it, have what a setting says.
func TestSetting(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	s := Setting{Schema: `Agent "Store`, Owner: true}.Merge(Setting{Database: map[string]string{"DateStyle": "SQL, DMY", "application_name": "it's"}})
	template := ""
	for _, from := range []string{"template0", "first"} {
		if from == "first" {
			from = template
		}
		template = databaseName(t)
		databaseURL, err := s.create(t.Context(), server, template, from)
		if err != nil {
			t.Fatal(err)
		}
		defer func(name string) {
			if err := administer(t.Context(), server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
				t.Error(err)
			}
		}(template)
		conn := connect(t, databaseURL)
		var schema, style, name string
		var super bool
		if err := conn.QueryRow(t.Context(), `SELECT current_schema(), current_setting('DateStyle'), current_setting('application_name'), rolsuper
			FROM pg_roles WHERE rolname = current_user`).Scan(&schema, &style, &name, &super); err != nil {
			t.Fatal(err)
		}
		if schema != `Agent "Store` || style != "SQL, DMY" || name != "it's" || super {
			t.Errorf("schema %q, dates %q, name %q, superuser %t", schema, style, name, super)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS mine ()"); err != nil {
			t.Errorf("the owner may not make a table: %v", err)
		}
		if err := conn.Close(t.Context()); err != nil { // a database in use cannot be copied
			t.Error(err)
		}
	}
}
