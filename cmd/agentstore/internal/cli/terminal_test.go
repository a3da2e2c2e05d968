package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v3"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		"naïve 東京 שלום 👩 é":        "naïve 東京 שלום 👩 é",
		"a\nb\tc\r":                `a\nb\tc\x0d`,
		"\x1b[31mred\x7f":          `\x1b[31mred\x7f`,
		"\u009b\u202e\u2028\ufeff": `\u009b\u202e\u2028\ufeff`,
		"\U000e0041":               `\U000e0041`,
		"\xff\xfe�":                `\xff\xfe�`,
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := lines("a\n\tb\x1b"); got != "a\n\tb"+`\x1b` {
		t.Errorf("lines: %q", got)
	}
}

// The writer gives the same result as the function, however the text is divided
// into writes.
func FuzzPlainWriter(f *testing.F) {
	f.Add("東京\x1b\u202e\xff", 1)
	f.Add("\xf0\x9f\x98", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 || size > 10 {
			return
		}
		var out bytes.Buffer
		w := &plainWriter{w: &out}
		for part := range slices.Chunk([]byte(text), size) {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		whole := lines(text)
		if got := out.String(); got != whole && !strings.HasPrefix(whole, got) {
			t.Errorf("%q in parts of %d: %q, want %q", text, size, got, whole)
		}
		if utf8.ValidString(text) && out.String() != whole {
			t.Errorf("%q in parts of %d: %q, want %q", text, size, out.String(), whole)
		}
		if strings.IndexFunc(strings.NewReplacer("\n", "", "\t", "").Replace(out.String()), steers) >= 0 {
			t.Errorf("%q steers", out.String())
		}
	})
}

// The JSON has the same value, and does not steer a terminal.
func FuzzPrintJSON(f *testing.F) {
	f.Add("\x1b\u009b\u202e\U000e0041\u2028\x7f<>&\"\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		var out bytes.Buffer
		if err := printJSON(&out, map[string]string{text: text}); err != nil {
			t.Fatal(err)
		}
		line, found := strings.CutSuffix(out.String(), "\n")
		if !found || strings.IndexFunc(line, steers) >= 0 {
			t.Errorf("%q", out.String())
		}
		var back map[string]string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[text] != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	})
}

func TestCells(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "東京": 4, "é": 1, "e\u0301": 1, "👩": 2, "ａ": 2, "한국": 4, "שלום": 4} {
		if got := cells(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{"abcde": "abcde", "abcdef": "abcd…", "東京東京": "東京…", "東東東": "東東…", "a東京東": "a東…"} {
		if got := clipped(text, 5); got != want || cells(got) > 5 {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTableIsAligned(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		table := newTable(invocation{screen: &out, colour: colour}, column{"NAME", false}, column{"N", true}, column{stageColumn, false}, column{"LAST", false})
		table.row([]string{"東京", "1", "apply/errored", "x"})
		table.row([]string{strings.Repeat("long", 20), "1000", "apply/applied", strings.Repeat("long", 20)})
		if err := table.flush(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Contains(text, "\x1b") != colour || colour != strings.Contains(text, red) {
			t.Errorf("colour %v: %q", colour, text)
		}
		for _, style := range []string{bold, red, green, faint, reset} {
			text = strings.ReplaceAll(text, style, "")
		}
		want := "NAME" + strings.Repeat(" ", 36) + "     N  STAGE          LAST\n" +
			"東京" + strings.Repeat(" ", 36) + "     1  apply/errored  x\n" +
			strings.Repeat("long", 9) + "lon…  1000  apply/applied  " + strings.Repeat("long", 20) + "\n"
		if text != want {
			t.Errorf("colour %v:\n%s\nwant\n%s", colour, text, want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"sesion list", "unknown command \"sesion\". Did you mean session? See agentstore help"},
		{"session lsit", "Did you mean list? See agentstore session --help"},
		{"audit doc", "Did you mean doctor?"},
		{"audit verify --before 2020-01-01", "unknown flag --before; it is a flag of session show, audit prune. See agentstore audit verify --help"},
		{"audit verify --dry-run", "unknown flag --dry-run"},
		{"session list --namspace x", "unknown flag --namspace. Did you mean --namespace? See agentstore session list --help"},
		{"plan list --state queud", "Did you mean queued?"},
		{"plan list --state", "a value is missing after --state"},
		{"migrate up --steps many", "\"many\" is not a value of --steps: it is not a whole number"},
		{"migrate up --timeout 5", "is not a value of --timeout: it is not a duration such as 90s"},
		{"migrate up --dry-run=perhaps", "it is neither true nor false"},
		{"session show", "session show needs either ID or --key. See agentstore session show --help"},
		{"xyzzy", "unknown command \"xyzzy\". See agentstore help"},
		{"-v", "unknown flag -v. See agentstore help"},
		{"completion tcsh", "unknown command \"tcsh\". See agentstore completion --help"},
		{"action show --key x", "unknown flag --key; it is a flag of "},
		{"--database-url x session list", "unknown flag --database-url; it is a flag of other commands, and comes after their names. See agentstore help"},
		{"help xyzzy", "unknown command \"xyzzy\""},
		{"session list --database-url memory://x", "a store in memory lives within one process"},
		{"audit seal --database-url memory:x", "a store in memory lives within one process"},
		{"session list", "no database: set DATABASE_URL"},
	} {
		code, stdout, stderr := run(strings.Fields(test.args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: code %d, %q, %q; want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

// Each command accepts only its own flags, not those of other commands.
func TestEveryCommandHasItsOwnFlagsAndHelp(t *testing.T) {
	count := 0
	var visit func(path []string, group *urfave.Command)
	visit = func(path []string, group *urfave.Command) {
		neighbours := map[string]bool{"nonsense": true}
		for _, command := range group.Commands {
			for _, name := range flagNames(command) {
				neighbours[name] = true
			}
		}
		for _, command := range group.Commands {
			args := append(slices.Clone(path), command.Name)
			if len(command.Commands) > 0 {
				visit(args, command)
			} else if command.Name != "help" {
				count++
				checkFlags(t, args, command, neighbours)
			}
		}
	}
	visit(nil, root(invocation{}))
	if count < 30 {
		t.Errorf("only %d commands", count)
	}
}

func checkFlags(t *testing.T, args []string, command *urfave.Command, neighbours map[string]bool) {
	t.Helper()
	code, text, stderr := run(append(slices.Clone(args), "--help")...)
	if code != exitOK || stderr != "" || !strings.Contains(text, command.Usage) {
		t.Errorf("%v --help: code %d, %q", args, code, stderr)
	}
	tried := 0
	for name := range neighbours {
		own := slices.Contains(flagNames(command), name)
		if own != strings.Contains(text, "--"+name+" ") {
			t.Errorf("%v --help and --%s: it is its own: %v", args, name, own)
		}
		if own || name != "nonsense" && tried > 2 { // in any order
			continue
		}
		tried++
		if code, _, stderr := run(append(slices.Clone(args), "--"+name+"=1")...); code != exitUsage || !strings.Contains(stderr, "unknown flag --"+name) {
			t.Errorf("%v takes --%s: code %d, %q", args, name, code, stderr)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for _, args := range [][]string{
		{"session", "list", "postgres://u:hush@h/d"},
		{"session", "show", "postgres://u:hush@h/d"},
		{"session", "import", "postgres://u:hush@h/d"},
		{"session", "list", "--limit", "postgres://u:hush@h/d"},
		{"plan", "list", "--state", "postgres://u:hush@h/d"},
		{"session", "list", "--database-url", "postgres://u:hush@127.0.0.1:1/d?connect_timeout=1"},
		{"session", "list", "--database-url", "host=127.0.0.1 port=1 password=hush connect_timeout=1"},
		{"session", "list", "--postgres://u:hush@h/d"},
		{"audit", "check", "PRIVATE+KEY+a+hush"},
		{"audit", "check", "x", "PRIVATE+KEY+a+hush"},
		{"audit", "verify", "--max-waiting", "PRIVATE+KEY+a+hush"},
		{"audit", "verify", "--key", "PRIVATE+KEY+a+hush", "--database-url", "postgres://h/d"},
		{"help", "PRIVATE+KEY+a+hush"},
	} {
		code, stdout, stderr := run(args...)
		if code == exitOK || strings.Contains(stdout+stderr, "hush") {
			t.Errorf("%v: code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestCompletionCandidates(t *testing.T) {
	for _, test := range []struct{ args, want, not string }{
		{"", "session:list, show", "--namespace"},
		{"session", "export:", "--help"},
		{"audit", "hold:", "--reason"},
		{"audit", "holds:", ""},
		{"audit hold", "--reason:", "release:"},
		{"audit release", "--plan:", "--reason"},
		{"session list", "--created-from:only sessions made at this time", "session:"},
		{"session list --actor x", "--namespace:", ""},
		{"session list --order", "activity\n", "--"},
		{"plan list --state", "constrained\n", "--"},
		{"action list --state", "archived\n", "--"},
		{"plan list --phase execute --state", "queued\n", "--"},
		{"migrate up --", "--steps:", "session:"},
	} {
		code, stdout, stderr := run(append(strings.Fields(test.args), completionFlag)...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, test.want) || test.not != "" && strings.Contains(stdout, test.not) {
			t.Errorf("%q: code %d, %q, %q", test.args, code, stdout, stderr)
		}
	}
}

// The script for bash runs in bash, and does not evaluate the words of the line.
func TestBashCompletion(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := run("completion", "bash")
	const test = `
agentstore() { : ; }
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _agentstore; echo "${COMPREPLY[*]}"; }
complete_words "$BINARY" sess
complete_words "$BINARY" session ""
complete_words "$BINARY" session list --crea
complete_words "$BINARY" plan list --state c
complete_words "$BINARY" session list --actor '$(touch evaluated)' --lim
complete_words "$BINARY" session list --database-url postgres : //u : "p'w" --lim
`
	command := exec.Command(shell, "--norc", "-c", script+test)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "BINARY="+os.Args[0], helperVariable+"=1")
	out, err := command.CombinedOutput()
	want := "session\nlist namespaces show tail fork export import delete\n--created-from --created-before\ncomplete cancelled constrained\n--limit\n--limit\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if files, _ := os.ReadDir(command.Dir); len(files) != 0 {
		t.Error("a word of the line was evaluated")
	}
}

const helperVariable = "AGENTSTORE_TEST_COMMAND"

// The test binary is also the command that the shell runs.
func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		os.Exit(Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	os.Exit(m.Run())
}

// If the reader is gone, a command ends silently; if a disk is full, it fails.
func TestOutputThatCannotBeWritten(t *testing.T) {
	reader, writer := io.Pipe()
	_ = reader.Close()
	full := writerFunc(func([]byte) (int, error) { return 0, errors.New("no space") })
	for _, test := range []struct {
		stdout io.Writer
		code   int
		stderr string
	}{{writer, exitPipe, ""}, {full, exitFailed, "agentstore: write the output: no space\n"}} {
		var errs bytes.Buffer
		code := Execute(t.Context(), []string{"migrate", "list"}, strings.NewReader(""), test.stdout, &errs, os.Getenv)
		if code != test.code || errs.String() != test.stderr {
			t.Errorf("code %d, %q", code, errs.String())
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
