package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// Each URL is wrong in a way that puts a part of its password where an error of a
// parser, a resolver or the server would print it.
func TestNoErrorHoldsAnyPartOfThePassword(t *testing.T) {
	for _, databaseURL := range []string{
		"postgres://user:hush-hush@host:notaport/db",
		"postgres://user:hush@hush@127.0.0.1:1/db",
		"postgres://user:1/hush@127.0.0.1:1/db",
		"postgres://user:1/hush%40hush@127.0.0.1:1/db",
		"postgres://user:/hush%40hush@127.0.0.1:1/db",
		"postgres://user:hush@hush/hush@127.0.0.1:1/db",
		"postgres://user:hush@x,hush@127.0.0.1:1/db",
		"postgres://user:%zzhush@127.0.0.1:1/db",
		"postgres://user:hush@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://user:hush@127.0.0.1:1/db?connect_timeout=1",
		"postgres://127.0.0.1:1/db?user=user&password=hush",
		"mysql://user:hush@127.0.0.1:1/db",
		"user:hush@127.0.0.1:1/db",
		"host=127.0.0.1 port=1 user=user password=hush",
		"host=127.0.0.1 port=x user=user password=hush",
		"host=127.0.0.1 port=1 password=my hush user=user",
		"host=127.0.0.1 port=1 password='hush user=user",
	} {
		migrator, err := Open(await.Context(t), databaseURL, Options{})
		if err == nil {
			t.Fatalf("%s: opened", databaseURL)
		}
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, migrator)} {
			if strings.Contains(text, "hush") {
				t.Errorf("%s\n\tgives %s", databaseURL, text)
			}
		}
	}
}

func TestParseURLNamesWhatIsWrong(t *testing.T) {
	for databaseURL, want := range map[string]string{
		"":                               "empty",
		"  ":                             "empty",
		"mysql://host/db":                "scheme",
		"postgres://u:a@b@host/db":       "percent-encoded",
		"postgres://u:1#a@host/db":       "percent-encoded",
		"postgres://u:a@host:port/db":    "expected postgres://",
		"host=h password=my x user=u":    "expected postgres://",
		"postgres://u:a@host/db?p%20q=1": "malformed",
	} {
		_, err := parseURL(databaseURL)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want ErrURL with %q", databaseURL, err, want)
		}
	}
}

func TestParseURLTakesWhatIsRight(t *testing.T) {
	for _, databaseURL := range []string{
		"postgres://user:a%40b%2Fc@host:5432/db?sslmode=disable",
		"postgresql://host/db%40x",
		"postgresql://host/db?user=me@corp",
		"postgres://user@h1:1,h2:2/db?target_session_attrs=read-write",
		"host=/var/run/postgresql dbname=db user=u password='a b'",
		"postgres:///db?host=/tmp&application_name=me&options=-c%20search_path%3Dtenant",
	} {
		if _, err := parseURL(databaseURL); err != nil {
			t.Errorf("%q: %v", databaseURL, err)
		}
	}
}
