package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// NewBouncer starts a PgBouncer before the database, in a pool mode (session or
// transaction), and returns a URL of it. serverConnections bounds its connections to the server: a
// small number makes sessions change hands at once. It is stopped at the test's
// end.
func NewBouncer(t testing.TB, databaseURL, mode string, serverConnections int) string {
	t.Helper()
	program, err := findBouncer()
	if err != nil {
		t.Fatal(err)
	}
	credential, err := serverUser()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agentstore-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the database URL does not parse")
	}
	password, _ := u.User.Password()
	usersFile, configFile := filepath.Join(dir, "users.txt"), filepath.Join(dir, "pgbouncer.ini")
	for path, content := range map[string]string{
		usersFile: fmt.Sprintf("%q %q\n", u.User.Username(), password),
		configFile: fmt.Sprintf(`[databases]
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
`, u.Hostname(), u.Port(), port, usersFile, mode, serverConnections),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if credential != nil {
		for _, path := range []string{dir, usersFile, configFile} {
			if err := os.Chown(path, int(credential.Uid), int(credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	process := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-q", configFile)
	process.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGTERM}
	var log logBuffer
	process.Dir, process.Stdout, process.Stderr = dir, &log, &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM) // immediate shutdown
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = process.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the log of PgBouncer:\n%s", log.tail())
		}
	})
	u.Host = net.JoinHostPort("127.0.0.1", port)
	if err := awaitReady(t.Context(), withExecMode(*u), ended); err != nil {
		t.Fatalf("PgBouncer: %v: %s", err, bytes.TrimSpace([]byte(log.tail())))
	}
	return u.String()
}

func withExecMode(u url.URL) string {
	query := u.Query()
	query.Set("default_query_exec_mode", "exec")
	u.RawQuery = query.Encode()
	return u.String()
}

// findBouncer finds PgBouncer, which Debian puts where root alone looks.
func findBouncer() (string, error) {
	for _, candidate := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if found, err := exec.LookPath(candidate); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("this test needs PgBouncer, which is not there: install it (Debian: apt-get install pgbouncer)")
}
