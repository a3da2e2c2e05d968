package schema

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// parseURL reads a PostgreSQL URL or keyword/value string. Its errors never
// quote the input: in a malformed one nobody can tell what is the password, so
// the parser's own message is not passed on.
func parseURL(databaseURL string) (*pgx.ConnConfig, error) {
	if strings.TrimSpace(databaseURL) == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrURL)
	}
	isURL := strings.Contains(databaseURL, "://")
	if isURL && !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return nil, fmt.Errorf("%w: its scheme is not postgres", ErrURL)
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: expected postgres://user:password@host:port/database, with special characters percent-encoded", ErrURL)
	}
	if isURL && strayCredentials(databaseURL, config) {
		return nil, fmt.Errorf("%w: an @ or / in the user or password must be percent-encoded", ErrURL)
	}
	for name := range config.RuntimeParams {
		if !settingName.MatchString(name) {
			return nil, fmt.Errorf("%w: a setting's name is malformed (a password with spaces must be quoted)", ErrURL)
		}
	}
	return config, nil
}

// strayCredentials reports a password that was cut at an unescaped @ or /. Its
// rest then stands in the host or database name, which connection errors print.
func strayCredentials(databaseURL string, config *pgx.ConnConfig) bool {
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
