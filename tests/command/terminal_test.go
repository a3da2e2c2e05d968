//go:build linux

package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-df90f812/agentstore/repo"
)

// onTerminal runs the command with a terminal as stdout and returns what it printed
// there.
func (d database) onTerminal(environment []string, args ...string) string {
	d.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = control.Close() }()
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		d.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		d.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		d.Fatal(err)
	}
	command := New(d.Context(), d, d.url, args...)
	command.Env = append(command.Env, environment...)
	command.Stdout = terminal
	if err := command.Start(); err != nil {
		d.Fatal(err)
	}
	_ = terminal.Close()
	shown := make(chan string)
	go func() {
		all, _ := io.ReadAll(control) // Read returns an error when the terminal is closed
		shown <- string(all)
	}()
	if code := Exit(d, command.Wait(), command); code != 0 {
		d.Errorf("%q: code %d", args, code)
	}
	return strings.ReplaceAll(<-shown, "\r\n", "\n")
}

// On a terminal there are colours, unless they are disabled, and stored values cannot
// control it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	name := strings.Join(hostile[:4], "") + "\U000e0041"
	session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{Actor: name}))(t)
	must(d.store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: name}))(t)
	id := session.ID.String()
	const bold, reset = "\x1b[1m", "\x1b[0m"
	for _, args := range [][]string{
		{"session", "list"},
		{"session", "list", "--json"},
		{"session", "show", id, "--contents"},
		{"session", "show", id, "--messages"},
		{"session", "export", id},
		{"audit", "export"},
		{"audit", "list", "--details"},
	} {
		shown := d.onTerminal([]string{"TERM=xterm", "NO_COLOR="}, args...)
		if shown == "" {
			t.Errorf("%q printed nothing", args)
		}
		isTable := args[1] != "export" && args[len(args)-1] != "--json"
		if strings.Contains(shown, bold) != isTable {
			t.Errorf("%q: colours %v", args, !isTable)
		}
		if rest := strings.NewReplacer(bold, "", reset, "").Replace(shown); strings.ContainsAny(rest, steering) {
			t.Errorf("%q: %q", args, rest)
		}
		for _, plain := range [][]string{{"TERM=xterm", "NO_COLOR=1"}, {"TERM=dumb", "NO_COLOR="}} {
			if shown := d.onTerminal(plain, args...); strings.ContainsAny(shown, steering) {
				t.Errorf("%q with %q: %q", args, plain, shown)
			}
		}
	}
	// What a terminal was shown is not the document, since characters that steer it are escaped: an import says so.
	shown := d.onTerminal(nil, "session", "export", id)
	d.run("session", "delete", id, "--yes")
	if code, _, stderr := RunWith(t.Context(), t, strings.NewReader(shown), d.url, "session", "import", "--restore"); code == 0 ||
		!strings.Contains(stderr, "not as an export writes it") {
		t.Errorf("import of what a terminal displayed: code %d, %s", code, stderr)
	}
}
