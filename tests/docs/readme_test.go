package docs

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// user types what README.md says.
type user struct {
	t           *testing.T
	home        string   // home has the clone, and the modules beside it
	at          string   // at is where the user is
	clone       string   // clone is this repository, all of which is compiled already
	cache       string   // cache is where go has all other modules
	environment []string // environment leads go and git to the copy of the repository, instead of GitHub
}

// newUser returns a user that has cloned the copy, before a release.
func newUser(t *testing.T, r repository) *user {
	t.Helper()
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, home: t.TempDir(), clone: clone}
	u.at, u.cache = u.home, strings.TrimSpace(r.run(nil, "go env GOMODCACHE"))
	u.environment = []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + r.directory + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + module,
		"GOPRIVATE=" + module, "GOBIN=" + filepath.Join(u.home, "bin"), "GOFLAGS=-modcacherw -trimpath",
		"PATH=" + filepath.Join(u.home, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"GOMODCACHE=" + linkedCache(t, u.cache), "GOSUMDB=off", // other modules were verified when they came
	}
	u.types(readmeLines(t)[0])
	u.at = u.module("untagged")
	u.types("go get " + module) // by the newest commit
	return u
}

// linkedCache returns a cache that has what the usual one has, without a copy. Only agentstore's modules are in it alone: their
// version would stay in the usual cache for ever.
func linkedCache(t *testing.T, usual string) string {
	t.Helper()
	linked := t.TempDir()
	for _, folder := range []string{".", "github.com", "cache/download", "cache/download/github.com"} {
		entries, err := os.ReadDir(filepath.Join(usual, folder))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(linked, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if slices.Contains([]string{"cache", "github.com", path.Base(path.Dir(module))}, entry.Name()) {
				continue
			}
			if err := os.Symlink(filepath.Join(usual, folder, entry.Name()), filepath.Join(linked, folder, entry.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	return linked
}

// readmeLines returns the lines of README.md for a shell, without their comments.
func readmeLines(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, b := range block.FindAllStringSubmatch(read(t, filepath.Join(root, "README.md")), -1) {
		if b[1] != "sh" {
			continue
		}
		for line := range strings.Lines(b[2]) {
			line, _, _ = strings.Cut(line, " # ")
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// testReadmeLines runs each line of README.md, or what is said here, in the order of the page.
func testReadmeLines(t *testing.T, u *user) {
	steps := []struct {
		line string
		run  func(line string)
	}{
		{"git clone https://" + module + " && cd agentstore", u.isIn}, // newUser did that
		{"go run ./examples/chat", u.chats},
		{"make demo", u.makes},
		{"make test", u.makes},

		{"go mod init hello", u.begins},
		{"go get " + module, u.types},
		{"go run .", u.runs},

		{"go install ./cmd/agentstore", u.installs},
		{"export DATABASE_URL=postgres://…", u.exports},
		{"agentstore migrate up", u.types},
		{"agentstore session list", u.types},
		{"agentstore inspect", u.inspects},

		{"go install " + module + "/cmd/agentstore@latest", u.installsLatest},
		{"go get " + module + "/adapters/adk@latest", u.getsAdapter},
		{"go work init . ../agentstore ../agentstore/adapters/adk", u.works},
	}
	var want []string
	for _, step := range steps {
		want = append(want, step.line)
	}
	if got := readmeLines(t); !slices.Equal(got, want) {
		t.Fatalf("README.md has the lines\n%s\nand the test runs\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, step := range steps {
		t.Log(step.line)
		step.run(step.line)
	}
}

// types runs a line as it is.
func (u *user) types(line string) {
	u.t.Helper()
	if output, err := try(u.t, u.at, u.environment, line); err != nil {
		u.t.Fatalf("%s: %v\n%s", line, err, output)
	}
}

// builds runs a line that compiles. Only in full does it: for other paths the compiler would begin at nothing. Otherwise
// go resolves what the line needs, and prints the commands.
func (u *user) builds(line string) (compiled bool) {
	u.t.Helper()
	if compiled = pgtest.Full(); !compiled {
		command := strings.Fields(line)
		line = strings.Join(slices.Insert(command, 2, "-n"), " ")
	}
	u.types(line)
	return compiled
}

// isIn checks that the line has made a clone.
func (u *user) isIn(string) {
	u.t.Helper()
	if !exists(filepath.Join(u.home, "agentstore", "README.md")) {
		u.t.Error("there is no clone")
	}
}

// inClone makes the user be in this repository, where go compiles least, with go's own settings.
func (u *user) inClone() {
	u.at = u.clone
	u.environment = append(u.environment, "GOWORK=", "GOFLAGS=", "GOMODCACHE="+u.cache)
}

// module makes the user be in a directory that is empty but for a go.mod.
func (u *user) module(name string) string {
	u.t.Helper()
	u.at = filepath.Join(u.home, name)
	if err := os.Mkdir(u.at, 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.types("go mod init " + name)
	return u.at
}

// writes writes the program of a module.
func (u *user) writes(source string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.at, "main.go"), []byte(source), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) chats(line string) {
	u.t.Helper()
	in := *u
	in.inClone()
	in.environment = append(in.environment, "DATABASE_URL=", "ADDRESS="+freeAddress(u.t))
	in.serves(line)
}

// makes checks that the Makefile has the target: what the tests are part of cannot be part of them.
func (u *user) makes(line string) {
	u.t.Helper()
	if !strings.Contains(read(u.t, filepath.Join(root, "Makefile")), "\n"+strings.TrimPrefix(line, "make ")+": ## ") {
		u.t.Errorf("%s: there is no such target", line)
	}
}

func (u *user) begins(line string) {
	u.t.Helper()
	u.module(strings.TrimPrefix(line, "go mod init "))
}

// runs runs the program of README.md. If it does not compile, TestReadmeRuns runs it.
func (u *user) runs(line string) {
	u.t.Helper()
	p := readmePrograms(u.t, read(u.t, filepath.Join(root, "README.md")))[0]
	u.writes(p.source)
	if !u.builds(line) {
		return
	}
	if got, err := try(u.t, u.at, u.environment, line); err != nil || got != p.prints {
		u.t.Errorf("%s: %v\n%s", line, err, got)
	}
}

func (u *user) installs(line string) {
	u.t.Helper()
	in := *u
	in.inClone()
	in.types(line)
}

func (u *user) exports(string) {
	u.t.Helper()
	u.environment = append(u.environment, "DATABASE_URL="+pgtest.NewEmptyDatabase(u.t))
}

func (u *user) inspects(line string) {
	u.t.Helper()
	u.serves(line + " --listen 127.0.0.1:0")
}

// installsLatest also shows why the commit of a release differs from the others: what is on main has a replace.
func (u *user) installsLatest(line string) {
	u.t.Helper()
	main := strings.Replace(line, "@latest", "@main", 1)
	if output, err := try(u.t, u.at, u.environment, main); err == nil || !strings.Contains(output, "replace directives") {
		u.t.Errorf("%s: %v\n%s", main, err, output)
	}
	if !u.builds(line) {
		return
	}
	if version, err := try(u.t, u.at, u.environment, "agentstore version"); !strings.HasPrefix(version, "agentstore v0.1.0, ") {
		u.t.Errorf("installed %s, %v", version, err)
	}
}

// usesAdapter is a program that needs a session service for ADK, and nothing else.
const usesAdapter = "package main\n\nimport \"" + module + "/adapters/adk\"\n\nfunc main() { adk.NewSessionService(nil) }\n"

func (u *user) getsAdapter(line string) {
	u.t.Helper()
	u.module("adapter")
	u.types(line)
	u.writes(usesAdapter)
	u.builds("go build .")
}

// works makes a workspace with the clone, which is older than the release.
func (u *user) works(line string) {
	u.t.Helper()
	u.module("workspace")
	u.writes(usesAdapter)
	u.environment = append(u.environment, "GOWORK=", "GOFLAGS=", "GOMODCACHE="+u.cache)
	u.types(line)
	u.builds("go build .")
}

var address = regexp.MustCompile(`http://\S+`)

// serves runs a line that prints an address, reads the page there, and interrupts it.
func (u *user) serves(line string) {
	u.t.Helper()
	printed := filepath.Join(u.t.TempDir(), "printed")
	output, err := os.Create(printed)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	command := exec.Command("bash", "-euc", "exec "+line)
	command.Dir, command.Stdout, command.Stderr = u.at, output, output
	command.Env = append(os.Environ(), u.environment...)
	// A group of its own, which is interrupted together, as by a terminal: go run does not hand it on.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		u.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }()
	await.For(u.t, line+" serves a page", func() bool {
		select {
		case err := <-ended:
			u.t.Fatalf("%s: %v\n%s", line, err, read(u.t, printed))
		default:
		}
		url := address.FindString(read(u.t, printed))
		return url != "" && isServed(u.t, url)
	})
	if err := syscall.Kill(-command.Process.Pid, syscall.SIGINT); err != nil {
		u.t.Error(err)
	}
	_ = await.Value(u.t, line+" ends", ended) // go run, when interrupted, with an error
}

func isServed(t *testing.T, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil) // as a browser has, for a page that begins with a redirection
	if err != nil {
		t.Fatal(err)
	}
	// Browsers know each name under localhost as this machine; a resolver need not.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Jar: jar, Transport: transport}).Do(request)
	if err != nil {
		return false // it does not listen yet
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
