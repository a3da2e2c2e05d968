package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
	first, second := newVisitor(t, address), newVisitor(t, address)
	stranger := &visitor{T: t, address: address}
	if response := stranger.do(http.MethodGet, "/messages", "", nil); response.status != http.StatusUnauthorized {
		t.Errorf("a stranger: status %d", response.status)
	}
	one, two := first.follow("/messages", ""), second.follow("/messages", "")
	if response := first.do(http.MethodPost, "/messages", "", url.Values{"text": {"hello there"}}); response.status != http.StatusNoContent {
		t.Fatalf("write: status %d", response.status)
	}
	question := one.next()
	if question.Role != "user" || question.Content != "hello there" || two.next() != question {
		t.Errorf("got %+v", question)
	}

	// Each part, with a new response for each.
	var answer strings.Builder
	last, responses := "", 0
	for ; ; responses++ {
		parts := second.follow("/answers/"+question.CallID, last)
		part := parts.next()
		_ = parts.body.Close()
		if parts.name == live.EndEvent {
			if part.Reason != "finished" {
				t.Errorf("the answer ended: %+v", part)
			}
			break
		}
		answer.WriteString(part.Text)
		last = parts.id
	}
	stored := one.next()
	if stored.Role != "assistant" || stored.Content != answer.String() || !strings.Contains(stored.Content, "hello there") || two.next() != stored || responses < 3 {
		t.Errorf("got %+v, in %d parts %q", stored, responses, answer.String())
	}
	// After a reload.
	if again := second.follow("/messages", ""); again.next() != question || again.next() != stored {
		t.Error("another conversation")
	}
}

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
	binary, err := chatBinary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary, "-addr", "127.0.0.1:0")
	command.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = patience
	var errs strings.Builder
	command.Stderr = &errs
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	said := lines.Scan()
	t.Cleanup(func() {
		interrupt()
		if err := command.Wait(); err != nil && command.ProcessState.ExitCode() != 0 || errs.Len() > 0 {
			t.Errorf("the example ended: %v: %s", err, errs.String())
		}
	})
	if !said {
		t.Fatal("the example says nothing")
	}
	return lines.Text()
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

// answer is that of a server.
type answer struct {
	status  int
	cookies []*http.Cookie
	body    io.ReadCloser
}

// do sends a request. The body of the answer is closed at the test's end.
func (v *visitor) do(method, path, last string, form url.Values) answer {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), patience)
	v.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, v.address+path, strings.NewReader(form.Encode()))
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
	Role, Content, Text, Reason string
	CallID                      string `json:"call_id"`
}

// following reads events.
type following struct {
	*testing.T

	body     io.Closer
	lines    *bufio.Scanner
	id, name string // of the last event
}

func (v *visitor) follow(path, last string) *following {
	v.Helper()
	response := v.do(http.MethodGet, path, last, nil)
	if response.status != http.StatusOK {
		v.Fatalf("%s: status %d", path, response.status)
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
