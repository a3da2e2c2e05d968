package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Server is a running PostgreSQL.
type Server struct {
	// URL is a superuser's URL, of the database postgres or the one that was given.
	URL string
	// Description says what server it is, for people. It contains no password.
	Description string
	stop        func()
}

// Stop stops the server and removes its files. It does nothing to a server that was
// given.
func (s *Server) Stop() { s.stop() }

// Options say what server to start.
type Options struct {
	// Kind is "url", "container" or "local", or several, with commas: the first that works. Empty: all, in this order.
	Kind string
	// Durable leaves fsync on, for benchmarks.
	Durable bool
	// Logf, if set, reports which server is used.
	Logf func(format string, args ...any)
}

// The environment variables.
const (
	urlEnv  = "AGENTSTORE_TEST_DATABASE_URL"
	kindEnv = "AGENTSTORE_TEST_SERVER"
	// binariesEnv names the directory of initdb and postgres.
	binariesEnv = "AGENTSTORE_TEST_BINARIES"
)

var errNoServer = errors.New(`no PostgreSQL to test on. Any one of these will do:
  - set ` + urlEnv + ` to a server's URL (a superuser: tests create databases)
  - start Docker; where no image can be pulled, "make image" builds one from Debian packages
  - install PostgreSQL's server (Debian: apt-get install postgresql) so that initdb and postgres are found`)

// maxConnections suffices for many parallel tests.
const maxConnections = "400"

// Start returns the server that the environment names, or starts one.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.Kind == "" {
		options.Kind = os.Getenv(kindEnv)
	}
	if err := setting().check(); err != nil {
		return nil, err
	}
	if options.Logf == nil {
		options.Logf = func(string, ...any) {}
	}
	start := map[string]func(context.Context, Options) (*Server, error){"url": given, "container": startContainer, "local": startLocal}
	var failures []error
	for kind := range strings.SplitSeq(cmp.Or(options.Kind, "url,container,local"), ",") {
		if start[kind] == nil {
			return nil, fmt.Errorf("%s is %q: it must be url, container, local, several with commas, or empty", kindEnv, options.Kind)
		}
		server, err := start[kind](ctx, options)
		if err == nil {
			options.Logf("pgtest: using %s", server.Description)
			return server, nil
		}
		failures = append(failures, fmt.Errorf("  (%s: %w)", kind, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(append([]error{errNoServer}, failures...)...)
}

// given returns the server that the environment names.
func given(context.Context, Options) (*Server, error) {
	databaseURL := os.Getenv(urlEnv)
	if databaseURL == "" {
		return nil, errors.New(urlEnv + " is not set")
	}
	u, err := url.Parse(databaseURL)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return nil, errors.New(urlEnv + " is not a postgres:// URL") // not shown: it may hold a password
	}
	return &Server{URL: databaseURL, Description: "the server of " + urlEnv + " at " + u.Host, stop: func() {}}, nil
}
