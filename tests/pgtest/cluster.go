package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cluster is a PostgreSQL server of one test's own, on 127.0.0.1, for tests that
// configure a server, kill it or copy it. It is made with the machine's
// binaries; without them the test fails and says how to get them. One goroutine
// uses it at a time.
type Cluster struct {
	// Dir is the server's own directory, which its user can read and write. The
	// data directory is Dir/data, and stands from one start to the next.
	Dir string
	// Port is the server's, from one start to the next.
	Port string
	// Password is the superuser's, who is called postgres.
	Password string

	binaries    string
	credential  *syscall.Credential
	environment []string // of the server, beside the test's own
	log         logBuffer
	process     *exec.Cmd     // nil when it does not run
	ended       chan struct{} // closed when process has ended
}

// NewCluster makes a cluster, which Start starts. It is stopped and removed at
// the test's end.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := newCluster(t, rand.Text())
	passwordFile := c.WriteFile(t, "password", c.Password+"\n")
	c.Run(t, "initdb", "--pgdata="+c.data(), "--username=postgres", "--pwfile="+passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	return c
}

// Replica makes a streaming replica of a running cluster, which names itself
// "replica" to it. Start starts it.
func (c *Cluster) Replica(t testing.TB) *Cluster {
	t.Helper()
	replica := newCluster(t, c.Password)
	replica.Run(t, "pg_basebackup", "--pgdata="+replica.data(), "--write-recovery-conf", "--checkpoint=fast",
		"--no-sync", "--wal-method=stream",
		"--dbname="+c.URL("postgres")+"&application_name=replica")
	return replica
}

func newCluster(t testing.TB, password string) *Cluster {
	t.Helper()
	binaries, err := findBinaries()
	if err != nil {
		t.Fatalf("this test starts servers of its own: %v: install PostgreSQL's server (Debian: apt-get install postgresql)", err)
	}
	credential, err := serverUser()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its parents are closed to the server's user.
	dir, err := os.MkdirTemp("", "agentstore-test-")
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Dir: dir, Port: port, Password: password, binaries: binaries, credential: credential}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			t.Logf("the log of the server at port %s:\n%s", c.Port, c.log.tail())
		}
		_ = os.RemoveAll(dir)
	})
	c.own(t, dir)
	return c
}

func (c *Cluster) data() string { return filepath.Join(c.Dir, "data") }

// URL is the superuser's, of one database, without TLS.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/%s?sslmode=disable", c.Password, c.Port, database)
}

// WriteFile writes a file into Dir that only the server's user can read, as
// keys must be, and returns its path.
func (c *Cluster) WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(c.Dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c.own(t, path)
	return path
}

func (c *Cluster) own(t testing.TB, path string) {
	t.Helper()
	if c.credential == nil {
		return
	}
	if err := os.Chown(path, int(c.credential.Uid), int(c.credential.Gid)); err != nil {
		t.Fatal(err)
	}
}

// Command is one of PostgreSQL's programs, or another where program is a path,
// to be run as the server's user.
func (c *Cluster) Command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	if !strings.Contains(program, "/") {
		program = filepath.Join(c.binaries, program)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.credential}
	command.Dir, command.Env = c.Dir, environment(c.binaries)
	return command
}

// Run runs a command to its end, which must be a success.
func (c *Cluster) Run(t testing.TB, program string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if output, err := c.Command(ctx, program, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", filepath.Base(program), err, bytes.TrimSpace(output))
	}
}

// Start starts the server with settings (name=value), and waits until it answers.
func (c *Cluster) Start(t testing.TB, settings ...string) {
	t.Helper()
	c.start(t, c.URL("postgres"), settings)
}

// StartTLS is Start for a server that speaks nothing but TLS.
func (c *Cluster) StartTLS(t testing.TB, settings ...string) {
	t.Helper()
	c.start(t, strings.Replace(c.URL("postgres"), "sslmode=disable", "sslmode=require", 1), settings)
}

func (c *Cluster) start(t testing.TB, databaseURL string, settings []string) {
	t.Helper()
	arguments := []string{"-D", c.data(), "-p", c.Port}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + c.Dir, "max_connections=100", "fsync=off",
		"log_min_error_statement=panic",
	}, slices.Concat(setting().server(), settings)...) {
		arguments = append(arguments, "-c", setting)
	}
	process := c.Command(context.WithoutCancel(t.Context()), "postgres", arguments...)
	process.SysProcAttr.Pdeathsig = syscall.SIGINT // a server whose tests were killed ends too
	process.Stdout, process.Stderr = &c.log, &c.log
	if c.environment != nil {
		process.Env = append(environment(c.binaries), c.environment...)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	c.process, c.ended = process, ended
	if err := awaitReady(t.Context(), databaseURL, ended); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server at once, as a crash does. What clients wrote last may
// be lost to them; what was committed is in the log on disk.
func (c *Cluster) Kill() { c.end(syscall.SIGKILL) }

// Stop shuts the server down, if it runs.
func (c *Cluster) Stop() { c.end(syscall.SIGINT) }

// Promote makes a replica a primary.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.Run(t, "pg_ctl", "promote", "--pgdata="+c.data(), "--wait", "--timeout=30")
}

func (c *Cluster) end(signal syscall.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(signal)
	select {
	case <-c.ended:
	case <-time.After(15 * time.Second):
		_ = c.process.Process.Kill()
		<-c.ended
	}
	c.process = nil
}

// logBuffer keeps what a server prints. It is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	return text[max(0, len(text)-4000):]
}
