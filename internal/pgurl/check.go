// Package pgurl checks database URLs without ever quoting them. In a malformed URL any
// part may be the password, so a parser's message, which shows parts of its input, must
// not reach a log.
package pgurl

import (
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// settingName matches the name of a server setting. In a keyword/value string, the words
// of an unquoted password with spaces are parsed as settings.
var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// Check reports why databaseURL is neither a PostgreSQL URL nor a keyword/value
// string, as a phrase that completes "the database URL …".
func Check(databaseURL string) error {
	if strings.TrimSpace(databaseURL) == "" {
		return errors.New("is empty")
	}
	isURL := strings.Contains(databaseURL, "://")
	if isURL && !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return errors.New("has a scheme other than postgres and postgresql")
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("is malformed: expected postgres://user:password@host:port/database, with special characters " +
			"percent-encoded")
	}
	if isURL && hasStrayCredentials(databaseURL, config) {
		return errors.New("has an @, / or # in the user or password that is not percent-encoded")
	}
	for name := range config.RuntimeParams {
		if !settingName.MatchString(name) {
			return errors.New("has a malformed setting name (a password with spaces must be quoted)")
		}
	}
	return nil
}

// hasStrayCredentials reports whether the password was cut off at an unescaped @, / or #.
// The rest of it is then in the host or the database name, which connection errors print,
// or in a fragment.
func hasStrayCredentials(databaseURL string, config *pgx.ConnConfig) bool {
	if strings.Contains(config.Host, "@") {
		return true
	}
	for _, fallback := range config.Fallbacks {
		if strings.Contains(fallback.Host, "@") {
			return true
		}
	}
	// The URL as written: an @ in the name of a database is percent-encoded there.
	_, rest, _ := strings.Cut(databaseURL, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		path, _, _ := strings.Cut(rest[end:], "?")
		return strings.Contains(path, "@")
	}
	return false
}
