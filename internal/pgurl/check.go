// Package pgurl checks database URLs without ever quoting them: in a malformed
// one nobody can tell what is the password, so a parser's own message, which
// shows parts of its input, must not reach a log.
package pgurl

import (
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// settingName is what names a server setting. Words of a password with spaces,
// in a keyword/value string, are taken for settings.
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
		return errors.New("is malformed: expected postgres://user:password@host:port/database, with special characters percent-encoded")
	}
	if isURL && hasStrayCredentials(databaseURL, config) {
		return errors.New("has an @ or / in the user or password that is not percent-encoded")
	}
	for name := range config.RuntimeParams {
		if !settingName.MatchString(name) {
			return errors.New("has a malformed setting name (a password with spaces must be quoted)")
		}
	}
	return nil
}

// hasStrayCredentials reports a password that was cut at an unescaped @ or /.
// Its rest then stands in the host or database name, which connection errors
// print.
func hasStrayCredentials(databaseURL string, config *pgx.ConnConfig) bool {
	if strings.Contains(config.Host, "@") {
		return true
	}
	for _, fallback := range config.Fallbacks {
		if strings.Contains(fallback.Host, "@") {
			return true
		}
	}
	return strings.Contains(config.Database, "@") && !strings.Contains(databaseURL, "%40")
}
