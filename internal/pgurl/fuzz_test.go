package pgurl

import (
	"slices"
	"testing"
)

// Check never panics, and its errors are fixed phrases, which contain no part of the
// URL.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"", "postgres://u:hunter2@h:5432/db?sslmode=disable", "postgresql://", "host=h password='hunter2 x'", "mysql://u:hunter2@h/d",
		"postgres://u:hunter2%zz@h/db", "postgres://h:port/db", "postgres://a,b:1,c/db", "host=h port=x password=hunter2", "\x00", "a=b=c",
		"postgres://u:hunter2@[::1/db", "service=none password=hunter2", "postgres://u:p@ss@h/db", "host=h password=two words",
	} {
		f.Add(seed)
	}
	phrases := []string{
		"is empty", "has a scheme other than postgres and postgresql",
		"is malformed: expected postgres://user:password@host:port/database, with special characters percent-encoded",
		"has an @, / or # in the user or password that is not percent-encoded",
		"has a malformed setting name (a password with spaces must be quoted)",
	}
	f.Fuzz(func(t *testing.T, databaseURL string) {
		if err := Check(databaseURL); err != nil && !slices.Contains(phrases, err.Error()) {
			t.Errorf("%v", err)
		}
	})
}
