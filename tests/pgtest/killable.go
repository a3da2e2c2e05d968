package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Killable is a server of the machine's PostgreSQL binaries that a test owns
// alone: it may be killed and started again on the same data. It is for one
// goroutine at a time.
type Killable struct {
	// URL is a superuser's, of the database postgres.
	URL string
	// Port is the TCP port, on 127.0.0.1.
	Port string
	// Dir is the cluster's own directory, with the data in Data. The server's
	// user owns both.
	Dir, Data string

	binaries   string
	settings   []string
	variables  []string
	credential *syscall.Credential

	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// HasBinaries reports whether the machine has what a cluster is made with.
func HasBinaries() bool {
	_, err := findBinaries()
	return err == nil
}

// KillableOptions say what cluster to make.
type KillableOptions struct {
	// Settings are the server's, each "name=value".
	Settings []string
	// InitDB are more arguments of initdb.
	InitDB []string
	// Environment are variables of the server's environment, each "name=value".
	Environment []string
}

// NewKillable makes a cluster and starts it. It is stopped and removed at the
// test's end. fsync is on, as it is by default.
func NewKillable(t testing.TB, options KillableOptions) *Killable {
	t.Helper()
	binaries, err := findBinaries()
	if err != nil {
		t.Fatal(err)
	}
	credential, err := serverUser()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agentstore-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the cluster: %v", err)
		}
	})
	if credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	password, passwordFile := rand.Text(), filepath.Join(dir, "password")
	c := &Killable{
		URL:        fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/postgres?sslmode=disable", password, port),
		Port:       port,
		Dir:        dir,
		Data:       filepath.Join(dir, "data"),
		binaries:   binaries,
		settings:   []string{"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=" + dir},
		credential: credential,
	}
	c.settings = slices.Concat(c.settings, setting().server(), options.Settings)
	c.variables = options.Environment
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	initdb := exec.CommandContext(t.Context(), filepath.Join(binaries, "initdb"), append([]string{
		"--pgdata=" + c.Data, "--username=postgres", "--pwfile=" + passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
	}, options.InitDB...)...)
	initdb.SysProcAttr, initdb.Dir = &syscall.SysProcAttr{Credential: credential}, dir
	if output, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, bytes.TrimSpace(output))
	}
	if c.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.log.Close() })
	c.Start(t)
	t.Cleanup(func() {
		if c.Running() {
			c.Stop(t, syscall.SIGINT)
		}
		if t.Failed() {
			t.Logf("the server's log ends:\n%s", c.LogTail())
		}
	})
	return c
}

// startTimeout bounds a start, the recovery from a crash and the wait for the
// last server's processes included.
const startTimeout = 60 * time.Second

// Start starts the server and waits until it answers. After a postmaster was
// killed its children need a moment to notice; until the last has gone and given
// up the shared memory, the data refuses another postmaster, and the start is
// tried again.
func (c *Killable) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if err := c.launch(); err != nil {
			t.Fatal(err)
		}
		err := awaitReady(ctx, c.URL, c.ended)
		if err == nil {
			return
		}
		if c.Running() || ctx.Err() != nil {
			t.Fatalf("start the server: %v\n%s", err, c.LogTail())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *Killable) launch() error {
	arguments := []string{"-D", c.Data}
	for _, setting := range c.settings {
		arguments = append(arguments, "-c", setting)
	}
	c.process = exec.Command(filepath.Join(c.binaries, "postgres"), arguments...)
	// A server whose tests were killed ends too.
	c.process.SysProcAttr = &syscall.SysProcAttr{Credential: c.credential, Pdeathsig: syscall.SIGINT}
	c.process.Env = append(environment(c.binaries), c.variables...)
	c.process.Dir, c.process.Stdout, c.process.Stderr = c.Dir, c.log, c.log
	if err := c.process.Start(); err != nil {
		return err
	}
	process, ended := c.process, make(chan struct{})
	c.ended = ended
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	return nil
}

// Running reports whether the postmaster is there.
func (c *Killable) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// PID is the postmaster's process id.
func (c *Killable) PID() int { return c.process.Process.Pid }

// Stop sends the postmaster a signal and waits until it has ended: SIGINT is a
// fast shutdown, SIGQUIT an immediate one, SIGKILL a crash that leaves its
// children to find out by themselves.
func (c *Killable) Stop(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := c.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-c.ended:
	case <-time.After(startTimeout):
		t.Errorf("the server has not ended %v after %v", startTimeout, signal)
		_ = c.process.Process.Kill()
		<-c.ended
	}
}

// Command is a command that is run as the server's user.
func (c *Killable) Command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.SysProcAttr, command.Dir = &syscall.SysProcAttr{Credential: c.credential}, c.Dir
	return command
}

// LogTail is the end of the server's log.
func (c *Killable) LogTail() string {
	text, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
