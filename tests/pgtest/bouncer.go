package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// NewBouncer starts a PgBouncer in front of the database, in a pool mode (session or
// transaction), and returns its URL. It is stopped at the test's end.
// serverConnections bounds its connections to the server: with few, clients soon share
// them. lines are added to its configuration.
func NewBouncer(t testing.TB, databaseURL, mode string, serverConnections int, lines ...string) string {
	t.Helper()
	binary, err := findBouncer()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProgram(syscall.SIGTERM, true)
	if err != nil {
		t.Fatal(err)
	}
	p.removeAtEnd(t)
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the database URL does not parse")
	}
	password, _ := u.User.Password()
	usersFile, err := p.writeFile("users.txt", fmt.Sprintf("%q %q\n", u.User.Username(), password))
	if err != nil {
		t.Fatal(err)
	}
	configFile, err := p.writeFile("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
default_pool_size = %d
max_client_conn = 500
server_round_robin = 1
%s
`, u.Hostname(), u.Port(), p.Port, usersFile, mode, serverConnections, strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.launch(p.command(context.WithoutCancel(t.Context()), binary, configFile)); err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort("127.0.0.1", p.Port)
	if err := p.awaitReady(t.Context(), WithParameter(u.String(), "default_query_exec_mode", "exec")); err != nil {
		t.Fatalf("PgBouncer: %v", err)
	}
	return u.String()
}

// findBouncer finds PgBouncer, which on Debian is only in root's PATH.
func findBouncer() (string, error) {
	for _, candidate := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if found, err := exec.LookPath(candidate); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("this test needs PgBouncer, which is not there: install it (Debian: apt-get install pgbouncer)")
}
