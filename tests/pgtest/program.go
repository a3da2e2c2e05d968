package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// program is a server, PostgreSQL or another, that this process runs in a directory of
// its own and on 127.0.0.1. PostgreSQL refuses to run as root: if this process does, the
// program runs as the user postgres or nobody. It can be ended and started again, by one
// goroutine at a time.
type program struct {
	// Dir is the program's directory, which its user can read and write.
	Dir string
	// Port is where it listens. It is the same at each start.
	Port string

	shutdown   syscall.Signal      // ends it at once, but cleanly
	credential *syscall.Credential // nil: the user of this process
	log        *os.File
	process    *exec.Cmd     // nil until it is started
	ended      chan struct{} // closed when process has ended
}

// patience is how long a server may take to start, to answer or to end, and to run a command. Only a failure takes
// that long.
const patience = 10 * time.Minute

// newProgram makes one whose directory is on a disk, or where files are in memory if there is such a place.
func newProgram(shutdown syscall.Signal, onDisk bool) (*program, error) {
	parent := ""
	if !onDisk {
		parent = memoryDir()
	}
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// Not t.TempDir, which the program's user cannot open.
	dir, err := os.MkdirTemp(parent, "agentstore-test-")
	if err != nil {
		return nil, err
	}
	p := &program{Dir: dir, Port: port, shutdown: shutdown, credential: credential}
	// Not a pipe, which the children of a killed server would keep open.
	p.log, err = os.Create(filepath.Join(dir, "log"))
	if err := errors.Join(err, p.own(dir)); err != nil {
		_ = p.remove()
		return nil, err
	}
	return p, nil
}

// memoryDir returns a directory whose files are in memory, if there is one with room. No server of tests has to outlive
// the machine, and a database is made there in a third of the time.
func memoryDir() string {
	const dir, room = "/dev/shm", 4 << 30
	var found syscall.Statfs_t
	if Full() || os.Getenv("TMPDIR") != "" || syscall.Statfs(dir, &found) != nil || found.Bavail*uint64(found.Bsize) < room {
		return ""
	}
	return dir
}

func (p *program) own(path string) error {
	if p.credential == nil {
		return nil
	}
	return os.Chown(path, int(p.credential.Uid), int(p.credential.Gid))
}

// writeFile writes a file into Dir that only the program's user can read, as keys
// require, and returns its path.
func (p *program) writeFile(name, content string) (path string, err error) {
	path = filepath.Join(p.Dir, name)
	return path, errors.Join(os.WriteFile(path, []byte(content), 0o600), p.own(path))
}

// command returns a command that runs as the program's user.
func (p *program) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.SysProcAttr, command.Dir = &syscall.SysProcAttr{Credential: p.credential}, p.Dir
	return command
}

// launch starts the program with a command.
func (p *program) launch(command *exec.Cmd) error {
	command.SysProcAttr.Pdeathsig = p.shutdown // ends the program when this process is killed
	command.Stdout, command.Stderr = p.log, p.log
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		// The signal comes when the thread that started the program ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.process, p.ended = command, ended
	return nil
}

// Running reports whether the program runs.
func (p *program) Running() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID returns the process id.
func (p *program) PID() int { return p.process.Process.Pid }

// end sends the program a signal, if it runs, and waits until it has ended. If that
// takes too long, it kills the program and returns an error.
func (p *program) end(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := p.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		_ = p.process.Process.Kill()
		<-p.ended
		return fmt.Errorf("the server on port %s did not end within %v of %v", p.Port, patience, signal)
	}
}

// remove ends the program and removes its directory.
func (p *program) remove() error {
	return errors.Join(p.end(p.shutdown), p.log.Close(), os.RemoveAll(p.Dir))
}

// removeAtEnd removes the program at the test's end.
func (p *program) removeAtEnd(t testing.TB) {
	t.Cleanup(func() {
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	})
	p.logAtEnd(t)
}

// logAtEnd logs the end of the program's output if the test has failed.
func (p *program) logAtEnd(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			if p.process != nil && !p.Running() {
				t.Logf("the server on port %s has ended: %v", p.Port, p.process.ProcessState)
			}
			t.Logf("the end of the log of the server on port %s:\n%s", p.Port, p.logTail())
		}
	})
}

// logTail returns the end of the program's output.
func (p *program) logTail() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// awaitReady waits until the program answers at a URL.
func (p *program) awaitReady(ctx context.Context, databaseURL string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, databaseURL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.ended:
			return fmt.Errorf("the server ended at once: %s", p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w: %s", err, p.logTail())
		case <-time.After(20 * time.Millisecond): // pace: until the next attempt
		}
	}
}

// serverUser returns the user that programs run as. Nil: the user of this process.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run a server as")
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}
