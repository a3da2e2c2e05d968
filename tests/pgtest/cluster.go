package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cluster is a PostgreSQL server that belongs to one test, for tests that configure,
// kill or copy a server. It runs the machine's binaries, on 127.0.0.1.
type Cluster struct {
	*program
	// Password is the password of the superuser, postgres.
	Password string
	// Environment is added to the server's environment, as "name=value".
	Environment []string

	binaries string
	settings []string
}

// NewCluster makes a cluster, with additional arguments of initdb. Start starts it; it
// is stopped and removed at the test's end. Without PostgreSQL's binaries on the
// machine the test fails and says how to get them.
func NewCluster(t testing.TB, initdb ...string) *Cluster {
	t.Helper()
	c := ownCluster(t, rand.Text())
	if err := c.init(t.Context(), initdb...); err != nil {
		t.Fatal(err)
	}
	return c
}

// kept are the clusters that Main removes.
var kept []*Cluster

// KeepCluster is like NewCluster, for a cluster that tests use one after the other: Main removes it.
func KeepCluster(t testing.TB, initdb ...string) *Cluster {
	t.Helper()
	c, err := newCluster(rand.Text(), false)
	if err != nil {
		t.Fatal(err)
	}
	kept = append(kept, c)
	if err := c.init(t.Context(), initdb...); err != nil {
		t.Fatal(err)
	}
	return c
}

// LogAtEnd logs the end of the server's output if the test has failed.
func (c *Cluster) LogAtEnd(t testing.TB) { c.logAtEnd(t) }

// Replica makes a streaming replica of a running cluster, with the application name
// "replica". Start starts it.
func (c *Cluster) Replica(t testing.TB) *Cluster {
	t.Helper()
	replica := ownCluster(t, c.Password)
	if err := replica.run(t.Context(), "pg_basebackup", "--pgdata="+replica.Data(), "--write-recovery-conf",
		"--checkpoint=fast", "--no-sync", "--wal-method=stream",
		"--dbname="+c.URL("postgres")+"&application_name=replica"); err != nil {
		t.Fatal(err)
	}
	return replica
}

func ownCluster(t testing.TB, password string) *Cluster {
	t.Helper()
	c, err := newCluster(password, false)
	if err != nil {
		t.Fatalf("this test starts servers of its own, also where others run on a container: %v: install PostgreSQL's server (Debian: apt-get install postgresql)", err)
	}
	c.removeAtEnd(t)
	return c
}

func newCluster(password string, durable bool) (*Cluster, error) {
	binaries, err := findBinaries()
	if err != nil {
		return nil, err
	}
	p, err := newProgram(syscall.SIGINT, durable)
	if err != nil {
		return nil, err
	}
	return &Cluster{program: p, Password: password, binaries: binaries}, nil
}

func (c *Cluster) init(ctx context.Context, arguments ...string) error {
	passwordFile, err := c.writeFile("password", c.Password+"\n")
	if err != nil {
		return err
	}
	return c.run(ctx, "initdb", append([]string{
		"--pgdata=" + c.Data(), "--username=postgres", "--pwfile=" + passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
	}, arguments...)...)
}

// Data returns the data directory, which is kept from one start to the next.
func (c *Cluster) Data() string { return filepath.Join(c.Dir, "data") }

// URL returns the superuser's URL of a database, without TLS.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/%s?sslmode=disable", c.Password, c.Port, database)
}

// WriteFile writes a file into Dir that only the server's user can read, as keys
// require, and returns its path.
func (c *Cluster) WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path, err := c.writeFile(name, content)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Command returns a command that runs one of PostgreSQL's programs, or another, as the
// server's user.
func (c *Cluster) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	if own, err := exec.LookPath(filepath.Join(c.binaries, name)); err == nil {
		name = own
	}
	command := c.command(ctx, name, arguments...)
	command.Env = environment(c.binaries)
	return command
}

// run runs a command to its end.
func (c *Cluster) run(ctx context.Context, name string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if output, err := c.Command(ctx, name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(output))
	}
	return nil
}

// Start starts the server, and waits until it answers. Settings (name=value) apply to
// this start and later ones. fsync is off unless they set it.
func (c *Cluster) Start(t testing.TB, settings ...string) {
	t.Helper()
	if err := c.start(context.Background(), settings...); err != nil {
		t.Fatal(err)
	}
}

// start is like Start. After a postmaster was killed, another one cannot start until the
// last of its children has noticed and released the shared memory: start then retries.
func (c *Cluster) start(ctx context.Context, settings ...string) error {
	first, deadline := c.process == nil, time.Now().Add(patience)
	c.settings = append(c.settings, settings...)
	arguments := []string{"-D", c.Data(), "-p", c.Port}
	for _, setting := range slices.Concat([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + c.Dir, "fsync=off", "log_min_error_statement=panic",
	}, setting().server(), c.settings) {
		arguments = append(arguments, "-c", setting)
	}
	// The server may require TLS.
	databaseURL := strings.Replace(c.URL("postgres"), "sslmode=disable", "sslmode=prefer", 1)
	for {
		command := c.Command(context.WithoutCancel(ctx), "postgres", arguments...)
		command.Env = append(command.Env, c.Environment...)
		if err := c.launch(command); err != nil {
			return err
		}
		err := c.awaitReady(ctx, databaseURL)
		if err == nil || first || c.Running() || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // pace: until the next attempt
	}
}

// Stop sends the postmaster a signal, if it runs, and waits until it has ended. SIGINT
// is a fast shutdown, SIGQUIT an immediate one, and SIGKILL a crash, which its children
// have to notice by themselves.
func (c *Cluster) Stop(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := c.end(signal); err != nil {
		t.Error(err)
	}
}

// Promote makes a replica the primary.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	if err := c.run(t.Context(), "pg_ctl", "promote", "--pgdata="+c.Data(), "--wait", "--timeout=600"); err != nil {
		t.Fatal(err)
	}
}

// startLocal starts a cluster as the shared server.
func startLocal(ctx context.Context, options Options) (_ *Server, err error) {
	c, err := newCluster(rand.Text(), options.Durable)
	if err != nil {
		return nil, err
	}
	stopClock := func() {}
	stop := func() {
		stopClock()
		if err := c.remove(); err != nil {
			options.Logf("pgtest: remove the cluster: %v", err)
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err := c.init(ctx); err != nil {
		return nil, err
	}
	if stopClock, err = setting().Clock.start(c); err != nil {
		return nil, err
	}
	settings := []string{"max_connections=" + maxConnections}
	if options.Durable {
		settings = append(settings, "fsync=on")
	}
	if err := c.start(ctx, settings...); err != nil {
		return nil, err
	}
	return &Server{URL: c.URL("postgres"), Description: "a cluster of the binaries in " + c.binaries, stop: stop}, nil
}
