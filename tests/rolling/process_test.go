package rolling

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clients has the built clients, by commit. Each is built once.
var clients struct {
	sync.Mutex
	directory string
	paths     map[string]string
}

// workingTree stands for the working tree instead of a commit.
const workingTree = "working tree"

// build builds the client of a commit, with that commit's library.
func build(t *testing.T, commit string) (path string) {
	t.Helper()
	clients.Lock()
	defer clients.Unlock()
	if path, found := clients.paths[commit]; found {
		return path
	}
	if clients.directory == "" {
		directory, err := os.MkdirTemp("", "agentstore-rolling-")
		if err != nil {
			t.Fatal(err)
		}
		clients.directory, clients.paths = directory, map[string]string{}
	}
	path = filepath.Join(clients.directory, "client-"+strings.ReplaceAll(commit, " ", "-"))
	source := "../.."
	if commit != workingTree {
		source = filepath.Join(clients.directory, "source-"+commit)
		git(t, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", source, commit)
		defer git(t, "worktree", "remove", "--force", source)
	}
	// Other modules are compiled already, for the tests.
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./tests/rolling/client")
	command.Dir = source
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the client of %s: %v: %s", commit, err, bytes.TrimSpace(output))
	}
	clients.paths[commit] = path
	return path
}

func removeClients() {
	if clients.directory != "" {
		_ = os.RemoveAll(clients.directory)
	}
}

// process is a running client.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	stderr  bytes.Buffer
	rounds  atomic.Int64
	ended   chan struct{} // closed when it has ended
	err     error
	report  report
}

// report is what a client prints when it ends.
type report struct {
	Appended     int64  `json:"appended"`
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"first_failure"`
}

func start(t *testing.T, path, databaseURL string, arguments ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(path, arguments...), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	p.command.Stderr = &p.stderr
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if json.Unmarshal(lines.Bytes(), &p.report) != nil {
				p.rounds.Add(1)
			}
		}
		p.err = p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	return p
}

// patience bounds waits. Only a failure takes that long.
const patience = time.Minute

// work waits until the client has done a number of further rounds.
func (p *process) work(t *testing.T, rounds int64) {
	t.Helper()
	goal := p.rounds.Load() + rounds
	for deadline := time.Now().Add(patience); p.rounds.Load() < goal; time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			t.Fatalf("the client has ended: %v: %s", p.err, p.stderr.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client makes no progress: %d rounds", p.rounds.Load())
		}
	}
}

// end stops the client after its round, and returns its report.
func (p *process) end(t *testing.T) report {
	t.Helper()
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the client does not end")
	}
	if p.err != nil {
		t.Fatalf("the client failed: %v: %s", p.err, p.stderr.String())
	}
	return p.report
}

// refused waits for the end of a client that cannot open its store, and returns its
// error.
func (p *process) refused(t *testing.T) string {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the client still works")
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("the client ended with %v: %s", p.err, p.stderr.String())
	}
	return p.stderr.String()
}
