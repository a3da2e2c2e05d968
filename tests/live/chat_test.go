package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// TestChat runs the example and reads with two clients what is written, and with one that
// comes back the answer while it is made.
func TestChat(t *testing.T) {
	t.Parallel()
	for name, databaseURL := range map[string]string{"Memory": "", "PostgreSQL": pgtest.NewEmptyDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testChat(t, startChat(t, databaseURL))
		})
	}
}

func testChat(t *testing.T, address string) {
	visitor := newVisitor(t, address)
	visitor.ask("q1", "hello there", http.StatusOK)
	if response := newVisitor(t, address).do(http.MethodGet, conversation, "", nil); response.status != http.StatusNotFound {
		t.Errorf("a stranger: status %d", response.status)
	}
	one, two := visitor.follow(""), visitor.follow("")

	// The second one comes again after each event.
	var question, stored said
	var answer strings.Builder
	opened, ended, responses := false, false, 0
	for ; question.Role == "" || stored.Role == "" || !ended; responses++ {
		event := two.next()
		switch {
		case two.name == live.BeginEvent:
			continue
		case two.name == "part":
			answer.WriteString(event.Text)
		case event.State == "open":
			opened = strings.HasSuffix(event.Key, "/q1")
		case event.State != "":
			if ended = true; event.State != "finished" {
				t.Errorf("the answer ended: %+v", event)
			}
		case event.Role == "user":
			question = event
		default:
			stored = event
		}
		_ = two.body.Close()
		two = visitor.follow(two.id)
	}
	if question.Content != "hello there" || stored.Role != "assistant" || stored.Metadata != question.Metadata || stored.Metadata.ID == "" || stored.Content != answer.String() ||
		!strings.Contains(stored.Content, "hello there") || !opened || responses < 6 {
		t.Errorf("got %+v and %+v, in parts %q", question, stored, answer.String())
	}
	// The first one has the same, and so has a new reader.
	for _, reader := range []*following{one, visitor.follow("")} {
		for _, want := range []said{question, stored} {
			if got := reader.message(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
	list, err := io.ReadAll(visitor.do(http.MethodGet, "/conversations", "", nil).body)
	if err != nil || !strings.Contains(string(list), `[{"id":"c1","title":"hello there","unread":2}]`) {
		t.Errorf("the list is %s, %v", list, err)
	}
}

// TestChatProcessDies kills the process that answers in the middle. Another one begins the answer again:
// it is stored once, and so is a question that is sent twice.
// Guarantee: Claims: An answer whose process is killed is made by another, and stored once.
func TestChatProcessDies(t *testing.T) {
	t.Parallel()
	visitor := halfAnswered(t)
	for visitor == nil { // this test was too late
		visitor = halfAnswered(t)
	}
	visitor.ask("q1", "hello there", http.StatusOK)
	events := visitor.follow("")
	var parts strings.Builder
	var answer said
	restarted, ended := false, false
	for answer.Role == "" || !ended {
		switch event := events.next(); {
		case event.State == "restarted":
			restarted = true
			parts.Reset()
		case events.name == "part":
			parts.WriteString(event.Text)
		case event.Role == "assistant":
			answer = event
		case event.State != "":
			ended = event.State == "finished"
		}
	}
	if !restarted || answer.Content != parts.String() || !strings.HasSuffix(answer.Content, whole) {
		t.Errorf("restarted: %v; the answer is %q, in parts %q", restarted, answer.Content, parts.String())
	}
	visitor.ask("q1", "something else", http.StatusConflict)
	visitor.ask("q1", "hello there", http.StatusOK)
	visitor.ask("q2", "the second", http.StatusOK)
	again := visitor.follow("")
	for _, want := range []string{"hello there", answer.Content, "the second"} {
		if got := again.message(); got.Content != want {
			t.Errorf("the message is %q, want %q", got.Content, want)
		}
	}
}

// halfAnswered asks a question, kills the process that answers when it has begun, and returns the asking visitor,
// with the address of another process. If the answer was complete by then, it returns nil.
func halfAnswered(t *testing.T) *visitor {
	t.Helper()
	databaseURL := pgtest.NewEmptyDatabase(t)
	first, dies := startChatProcess(t, databaseURL)
	second, stays := startChatProcess(t, databaseURL)
	signal := func(process *exec.Cmd, signal os.Signal) {
		if err := process.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	signal(stays, syscall.SIGSTOP) // so that it is the first one that answers
	t.Cleanup(func() { _ = stays.Process.Signal(syscall.SIGCONT) })
	visitor := newVisitor(t, first)
	visitor.ask("q1", "hello there", http.StatusOK)
	for begun := visitor.follow(""); begun.name != "part"; {
		begun.next()
	}
	signal(dies, syscall.SIGKILL)
	_ = dies.Wait()
	conn := pgtest.Connect(t, databaseURL)
	await.For(t, "the server has noticed", func() bool {
		return pgtest.Value[int](t, conn, `SELECT count(*) FROM pg_locks l, pg_stat_activity a WHERE a.pid = l.pid
			AND a.datname = current_database() AND l.mode = 'RowExclusiveLock' AND a.pid <> pg_backend_pid()`) == 0
	})
	if pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM messages WHERE role = 'assistant')") {
		return nil
	}
	signal(stays, syscall.SIGCONT)
	visitor.address = second
	return visitor
}

const (
	// conversation is where a conversation of every visitor's is.
	conversation = "/conversations/c1"
	// whole ends an answer.
	whole = "a lot in it."
)

// chatBinary builds the example once. main removes its directory.
var chatBinary = sync.OnceValues(func() (string, error) {
	var err error
	if chatDirectory, err = os.MkdirTemp("", "agentstore-chat-"); err != nil {
		return "", err
	}
	binary := filepath.Join(chatDirectory, "chat")
	output, err := exec.Command("go", "build", "-o", binary, "github.com/seed-df90f812/agentstore/examples/chat").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the example: %w: %s", err, output)
	}
	return binary, nil
})

var chatDirectory string

// startChat starts the example, and returns its address.
func startChat(t *testing.T, databaseURL string) string {
	t.Helper()
	address, _ := startChatProcess(t, databaseURL)
	return address
}

// startChatProcess returns the example's process, too, which the caller may kill.
func startChatProcess(t *testing.T, databaseURL string) (string, *exec.Cmd) {
	t.Helper()
	binary, err := chatBinary()
	if err != nil {
		t.Fatal(err)
	}
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	_ = port.Close()
	ctx, interrupt := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary)
	command.Env = append(os.Environ(), "DATABASE_URL="+databaseURL, "ADDRESS="+address)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Until(await.End(t))
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		interrupt()
		_ = command.Wait() // its error is the context's
		if code := command.ProcessState.ExitCode(); code > 0 {
			t.Errorf("the example ended with %d: %s", code, output.String())
		}
	})
	await.For(t, "the example answers", func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
	return "http://" + address, command
}

// visitor is a client with a cookie.
type visitor struct {
	*testing.T

	address, cookie string
}

func newVisitor(t *testing.T, address string) *visitor {
	t.Helper()
	v := &visitor{T: t, address: address}
	response := v.do(http.MethodGet, "/", "", nil)
	if response.status != http.StatusOK || len(response.cookies) != 1 {
		t.Fatalf("the page: status %d, cookies %v", response.status, response.cookies)
	}
	v.cookie = response.cookies[0].Name + "=" + response.cookies[0].Value
	return v
}

// ask sends a question.
func (v *visitor) ask(id, text string, status int) {
	v.Helper()
	if response := v.do(http.MethodPut, conversation+"/"+id, "", url.Values{"text": {text}}); response.status != status {
		v.Fatalf("the question %q: status %d, want %d", text, response.status, status)
	}
}

// answer is that of a server.
type answer struct {
	status  int
	cookies []*http.Cookie
	body    io.ReadCloser
}

// do sends a request. The body of the answer is closed at the test's end.
func (v *visitor) do(method, path, last string, form url.Values) answer {
	v.Helper()
	request, err := http.NewRequestWithContext(await.Context(v), method, v.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Cookie", v.cookie)
	request.Header.Set("Last-Event-ID", last)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { _ = response.Body.Close() })
	return answer{response.StatusCode, response.Cookies(), response.Body}
}

// said is the data of an event.
type said struct {
	Role, Content, Text, Key, State string
	Metadata                        struct{ ID, Picture string }
}

// following reads events.
type following struct {
	*testing.T

	body     io.Closer
	lines    *bufio.Scanner
	id, name string // of the last event
}

func (v *visitor) follow(last string) *following {
	v.Helper()
	response := v.do(http.MethodGet, conversation, last, nil)
	if response.status != http.StatusOK {
		v.Fatalf("status %d", response.status)
	}
	return &following{T: v.T, body: response.body, lines: bufio.NewScanner(response.body)}
}

func (f *following) next() (data said) {
	f.Helper()
	f.name = ""
	for f.lines.Scan() {
		switch field, value, _ := strings.Cut(f.lines.Text(), ": "); field {
		case "id":
			f.id = value
		case "event":
			f.name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				f.Fatal(err)
			}
			return data
		}
	}
	f.Fatalf("no event: %v", f.lines.Err())
	return said{}
}

// message returns the next message.
func (f *following) message() (data said) {
	f.Helper()
	for data.Role == "" {
		data = f.next()
	}
	return data
}
