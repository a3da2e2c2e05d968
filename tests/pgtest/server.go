package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Server is a running PostgreSQL.
type Server struct {
	// URL is a superuser's, of the database postgres or the one that was given.
	URL string
	// Description says what it is, for people. It holds no password.
	Description string
	stop        func()
}

// Stop stops the server and removes what it left. A server that was given is
// left alone.
func (s *Server) Stop() { s.stop() }

// Options say what server to start.
type Options struct {
	// Kind is "url", "container" or "local" to have that or an error; empty for
	// the first that can be had.
	Kind string
	// Durable leaves fsync on, as benchmarks need it.
	Durable bool
	// Logf tells what was tried and taken.
	Logf func(format string, args ...any)
}

// The environment.
const (
	urlEnv   = "AGENTSTORE_TEST_DATABASE_URL"
	kindEnv  = "AGENTSTORE_TEST_SERVER"
	imageEnv = "AGENTSTORE_TEST_IMAGE"
	// binariesEnv is the directory of the initdb and postgres to take.
	binariesEnv = "AGENTSTORE_TEST_BINARIES"
)

// errNoServer says how to get a server.
var errNoServer = errors.New(`no PostgreSQL to test on. Any one of these will do:
  - set ` + urlEnv + ` to a server's URL (a superuser: tests create databases)
  - start Docker; where no image can be pulled, "make image" builds one from Debian packages
  - install PostgreSQL's server (Debian: apt-get install postgresql) so that initdb and postgres are found`)

// maxConnections is room for many parallel tests.
const maxConnections = "400"

// Start finds or starts a server.
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
	kinds := []struct {
		name  string
		start func(context.Context, Options) (*Server, error)
	}{{"url", given}, {"container", startContainer}, {"local", startLocal}}
	known := false
	var failures []error
	for _, kind := range kinds {
		if options.Kind != "" && options.Kind != kind.name {
			continue
		}
		known = true
		server, err := kind.start(ctx, options)
		if err == nil {
			options.Logf("pgtest: using %s", server.Description)
			return server, nil
		}
		failures = append(failures, fmt.Errorf("  (%s: %w)", kind.name, err))
		if ctx.Err() != nil {
			break
		}
	}
	if !known {
		return nil, fmt.Errorf("%s is %q: it must be url, container, local or empty", kindEnv, options.Kind)
	}
	return nil, errors.Join(append([]error{errNoServer}, failures...)...)
}

// given takes the server that the environment names.
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

// WithDatabase is the URL of another database of the same server.
func WithDatabase(serverURL, database string) string {
	u, err := url.Parse(serverURL)
	if err != nil {
		panic("pgtest: a server's URL does not parse")
	}
	u.Path = "/" + database
	return u.String()
}
