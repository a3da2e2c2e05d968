// Package amounts counts what is done for each byte of a user's text: statements that are executed, and bytes that are allocated. It
// looks at no clock.
package amounts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/adapters/adk"
	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/window"
)

const small, large = 64 << 10, 1 << 20

// mostTimes is how much more sixteen times the bytes may take.
const mostTimes = 20

// world is where a function runs.
type world struct {
	*testing.T

	store   repo.Store
	session repo.ID
}

// function is one whose work depends on a user's text.
type function struct {
	// bound is what it does for each byte in, at most, and on what further it stops.
	bound  string
	inputs map[string]func(size int) string
	// do may be refused: that is work, too.
	do func(ctx context.Context, w *world, input string)
}

// Texts, and documents of JSON, with which something has much to do.
var (
	texts = repeated("<", "\\", "\"", "\xff", "é", "\r", "\r\n", "{{", "a b ", "/~", "'", "&", "token:(", "-p {eyJ", "\"token:{")
	// Of documents some are cut off, or nest too deeply.
	documents = map[string]func(int) string{
		"members":  func(size int) string { return object("k", size) },
		"escapes":  func(size int) string { return `{"a":"` + strings.Repeat(`\u0041`, size/6) + `"}` },
		"numbers":  func(size int) string { return `{"a":[` + strings.Repeat("1e400,", size/6) + `1]}` },
		"digits":   func(size int) string { return `{"a":` + strings.Repeat("1", size) + `}` },
		"spaces":   func(size int) string { return `{"a":` + strings.Repeat(" ", size) + `1}` },
		"deep":     func(size int) string { return `{"a":` + strings.Repeat("[", size) },
		"objects":  func(size int) string { return `{"a":[` + strings.Repeat(`{"b":{}},`, size/9) + `1]}` },
		"twice":    func(size int) string { return `{` + strings.Repeat(`"a":1,`, size/6) + `"a":1}` },
		"unclosed": func(size int) string { return `{"a":"` + strings.Repeat("x", size) },
	}
)

func repeated(parts ...string) map[string]func(int) string {
	all := map[string]func(int) string{}
	for _, part := range parts {
		all[part] = func(size int) string { return strings.Repeat(part, size/len(part)) }
	}
	return all
}

// object returns an object of about so many bytes with a member for each twelve.
func object(prefix string, size int) string {
	var b strings.Builder
	for i := range size / 12 {
		fmt.Fprintf(&b, `,%q:1`, fmt.Sprintf("%s%06d", prefix, i))
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

var functions = map[string]function{
	"Sessions.Append, content": {"linear, up to repo.MaxContentBytes", texts, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleUser, Content: input})
	}},
	"Sessions.Create, metadata": {"linear, up to repo.MaxMetadataBytes", documents, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().Create(ctx, repo.NewSession{Metadata: json.RawMessage(input)})
	}},
	"Sessions.Update, merge patch": {"linear in the object and the patch", documents, func(ctx context.Context, w *world, input string) {
		made, err := w.store.Sessions().Create(ctx, repo.NewSession{Metadata: json.RawMessage(object("j", len(input)/2))})
		if err == nil {
			_, _ = w.store.Sessions().Update(ctx, made.ID, repo.SessionUpdate{MetadataPatch: json.RawMessage(input)})
		}
	}},
	"State.Change, value": {"linear, up to 1 MiB", documents, func(ctx context.Context, w *world, input string) {
		change := repo.StateChange{Scope: repo.Scope{SessionID: w.session}, Key: "k", Value: json.RawMessage(input)}
		_, _ = w.store.State().Change(ctx, []repo.StateChange{change})
	}},
	"Actions.Create, template and pattern": {
		"linear, up to 64 KiB of a template and 1,000 bytes of a pattern", repeated("{{.a}}", "{{", "x", "(a*)*"),
		func(ctx context.Context, w *world, input string) {
			_, _ = w.store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{
				DefinitionOfDone: input[:len(input)/16], Arguments: []repo.Argument{
					{Name: "a", Type: repo.ArgumentString, Pattern: input[:len(input)/1024]}, {Name: "l", Type: repo.ArgumentList},
				},
			}})
		},
	},
	"Plans.Use, template and arguments": {"linear, and at most 1 MiB rendered", repeated(`"<",`, `1,`, `[],`), func(ctx context.Context, w *world, input string) {
		_, err := w.store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{
			Reusable: true, DefinitionOfDone: "{{.l}}", Arguments: []repo.Argument{{Name: "l", Type: repo.ArgumentList}},
		}})
		if err != nil {
			w.Fatal(err)
		}
		_, _ = w.store.Plans().Use(ctx, "a", repo.UseAction{Arguments: []repo.ArgumentValue{{Name: "l", Value: json.RawMessage("[" + strings.TrimSuffix(input, ",") + "]")}}})
	}},
	"Plans.Use, pattern": {"the bytes times the pattern's instructions, at most 16 Mi steps", repeated("a", "ab", "é"), func(ctx context.Context, w *world, input string) {
		_, err := w.store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{
			Reusable: true, Arguments: []repo.Argument{{Name: "a", Type: repo.ArgumentString, Pattern: "(a|b)*c"}},
		}})
		if err != nil {
			w.Fatal(err)
		}
		_, _ = w.store.Plans().Use(ctx, "a", repo.UseAction{Arguments: []repo.ArgumentValue{{Name: "a", Value: json.RawMessage(strconv.Quote(input))}}})
	}},
	"lists, filters and places": {"the bound of a name: what is longer is refused", texts, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{After: input})
		_, _ = w.store.Sessions().List(ctx, repo.SessionFilter{Owner: input}, repo.Page{})
		_, _ = w.store.Sessions().Find(ctx, repo.SessionKey{Key: repo.JoinKey(input, input)})
		_, _ = w.store.Plans().List(ctx, repo.PlanFilter{Project: input}, repo.Page{})
		_, _ = w.store.Audit().List(ctx, repo.AuditFilter{User: input}, repo.Page{After: input})
		_, _ = w.store.State().List(ctx, repo.Scope{SessionID: w.session}, input, repo.Page{After: input})
	}},
	"Sessions.Export and Import": {"linear, with one message in memory", texts, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleUser, Content: strings.ToValidUTF8(input, "?"), Payload: []byte(input)})
		var document bytes.Buffer
		document.Grow(8 * len(input))
		if err := w.store.Sessions().Export(ctx, w.session, &document); err != nil {
			w.Fatal(err)
		}
		other := memory.New()
		defer func() { _ = other.Close() }()
		_, _ = other.Sessions().Import(ctx, &document, false)
	}},
	"Sessions.Import": {"linear: a document that is none is read up to its fault", documents, func(ctx context.Context, w *world, input string) {
		var document bytes.Buffer
		if err := w.store.Sessions().Export(ctx, w.session, &document); err != nil || !strings.Contains(document.String(), `"metadata":{}`) {
			w.Fatalf("%v: %s", err, &document)
		}
		other := memory.New()
		defer func() { _ = other.Close() }()
		for _, changed := range []string{`"metadata":` + input, `"unknown":` + input + `,"metadata":{}`} {
			_, _ = other.Sessions().Import(ctx, strings.NewReader(strings.Replace(document.String(), `"metadata":{}`, changed, 1)), false)
		}
	}},
	"live, messages and parts": {"linear, up to Options.MaxEventBytes", texts, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleUser, Content: strings.ToValidUTF8(input, "?")})
		_, _ = live.PartEvent(ctx, repo.StreamPart{Data: []byte(input)})
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		h, err := live.New(w.store, live.Options{
			MaxEventBytes: 16 << 20, Authorize: func(*http.Request) (live.Target, error) { return live.Target{Session: w.session}, nil },
			Message: func(ctx context.Context, m repo.Message) (live.Event, error) {
				_, _ = live.MessageEvent(ctx, m)
				return live.Event{Data: []byte(m.Content)}, nil
			},
		})
		if err != nil {
			w.Fatal(err)
		}
		h.ServeHTTP(&reader{ResponseRecorder: httptest.NewRecorder(), bytes: len(input) / 2, leave: cancel}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?after="+url.QueryEscape(input[:len(input)/64]), nil))
	}},
	"inspect, a conversation": {"linear, redacted, and 64 KiB of each text shown", texts, func(ctx context.Context, w *world, input string) {
		_, _ = w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleUser, Content: strings.ToValidUTF8(input, "?"), Payload: []byte(input)})
		h, err := inspect.Handler(w.store, inspect.Options{Authorize: func(*http.Request) (inspect.Access, error) {
			return inspect.Access{Viewer: "v", AllNamespaces: true, Contents: true}, nil
		}})
		if err != nil {
			w.Fatal(err)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/sessions/"+w.session.String(), nil))
	}},
	"window.Read": {"linear, and 1,000 messages", repeated("a", "é"), func(ctx context.Context, w *world, input string) {
		for batch := range slices.Chunk([]byte(input), 256<<10) {
			var messages []repo.NewMessage
			for text := range slices.Chunk(batch, 1<<10) {
				messages = append(messages, repo.NewMessage{Role: repo.RoleUser, Content: strings.ToValidUTF8(string(text), "?")})
			}
			if _, err := w.store.Sessions().Append(ctx, w.session, messages...); err != nil {
				w.Fatal(err)
			}
		}
		_, _ = window.Read(ctx, w.store.Sessions(), w.session, window.Options{Tokens: 1 << 30})
	}},
	"window.Read, calls of a message": {"linear in the ids that Options.Calls returns", repeated("call ", "é "), func(ctx context.Context, w *world, input string) {
		var o window.Options
		for _, role := range []repo.Role{repo.RoleAssistant, repo.RoleUser, repo.RoleTool} {
			stored, err := w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: role, Content: "x", Payload: []byte(input[:len(input)/2])})
			if err != nil {
				w.Fatal(err)
			}
			o = window.Options{Tokens: 1 << 30, Pins: []repo.ID{stored[0].ID}, Calls: func(m repo.Message) (ids []string) {
				for n := range len(m.Payload) / 16 {
					ids = append(ids, fmt.Sprint(m.Sequence, "/", n))
				}
				return ids
			}}
		}
		_, _ = window.Read(ctx, w.store.Sessions(), w.session, o)
	}},
	"audit.Redactor": {"each byte is looked at 128 times at most", texts, func(_ context.Context, _ *world, input string) {
		audit.NewRedactor(audit.RedactorOptions{}).Text(input)
		audit.NewRedactor(audit.RedactorOptions{}).JSON(json.RawMessage(strconv.Quote(input)))
	}},
	"audit, the details of an entry": {"linear, up to the bound of details", documents, func(ctx context.Context, w *world, input string) {
		_ = w.store.Audit().Record(ctx, repo.AuditEntry{Type: "x", Details: json.RawMessage(input)})
	}},
	"inspect, other pages": {"linear, redacted, and 64 KiB of each text shown", texts, func(ctx context.Context, w *world, input string) {
		text := strings.ToValidUTF8(input, "?")
		quoted, err := json.Marshal(map[string]string{"k": text[:len(text)/2]})
		if err != nil {
			w.Fatal(err)
		}
		_, _ = w.store.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: w.session}, Key: "k", Value: quoted}})
		stream, err := w.store.Streams().Open(ctx, repo.NewStream{Key: "k", Owner: "o", Session: w.session})
		if err == nil {
			_, err = w.store.Streams().Append(ctx, stream, []byte(input))
		}
		if err != nil {
			w.Fatal(err)
		}
		_, _ = w.store.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleUser, Content: text})
		h, err := inspect.Handler(w.store, inspect.Options{Authorize: func(*http.Request) (inspect.Access, error) {
			return inspect.Access{Viewer: "v", AllNamespaces: true, Contents: true}, nil
		}})
		if err != nil {
			w.Fatal(err)
		}
		part := url.QueryEscape(input[:len(input)/64])
		for _, page := range []string{"/sessions/" + w.session.String() + "/state", "/sessions/" + w.session.String() + "/messages/0", "/stream?key=k", "/search?q=" + part, "/stream?key=" + part, "/sessions?owner=" + part} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, page, nil))
		}
	}},
	"mcp, an event": {"linear, up to repo.MaxPartBytes", texts, func(ctx context.Context, w *world, input string) {
		events, err := mcpstore.NewEventStore(w.store.Streams(), 0)
		if err == nil {
			err = events.Open(ctx, "s", "r")
		}
		if err != nil {
			w.Fatal(err)
		}
		text, _ := json.Marshal(input)
		_ = events.Append(ctx, "s", "r", []byte(`{"jsonrpc":"2.0","id":1,"result":`+string(text)+`}`))
		_ = events.Append(ctx, "s", "r", []byte(input))
		for _, err := range events.After(ctx, "s", "r", -1) {
			if err != nil {
				break
			}
		}
	}},
	"a2a, a task": {"linear, up to 1 MiB", texts, func(ctx context.Context, w *world, input string) {
		cluster, err := a2astore.New(ctx, w.store, a2astore.Options{})
		if err != nil {
			w.Fatal(err)
		}
		defer cluster.Close()
		ctx, call := a2asrv.NewCallContext(ctx, nil)
		call.User = a2asrv.NewAuthenticatedUser("u", nil)
		_, _ = cluster.Tasks.Create(ctx, &a2a.Task{ID: "t", Metadata: map[string]any{"k": input}})
	}},
	"adk, an event": {"linear, up to 16 MiB, and 1 MiB for a value", texts, func(ctx context.Context, w *world, input string) {
		service := adk.NewSessionService(w.store)
		made, err := service.Create(ctx, &session.CreateRequest{AppName: "a", UserID: "u"})
		if err != nil {
			w.Fatal(err)
		}
		event := &session.Event{ID: "e", LLMResponse: model.LLMResponse{Content: genai.NewContentFromText(input, genai.RoleModel)}}
		event.Actions.StateDelta = map[string]any{"k": input[:len(input)/8]}
		_ = service.AppendEvent(ctx, made.Session, event)
	}},
}

// reader is a client that leaves when it has so many bytes.
type reader struct {
	*httptest.ResponseRecorder

	bytes int
	leave func()
}

func (r *reader) Write(data []byte) (int, error) {
	if r.bytes -= len(data); r.bytes < 0 {
		r.leave()
	}
	return len(data), nil
}

// The variables of a process that runs one function, with one input of a size.
const functionVariable, inputVariable, sizeVariable = "AGENTSTORE_TEST_FUNCTION", "AGENTSTORE_TEST_INPUT", "AGENTSTORE_TEST_SIZE"

// TestOne runs a function, and prints what it has allocated. The process counts the statements.
func TestOne(t *testing.T) {
	f, is := functions[os.Getenv(functionVariable)]
	if !is {
		t.Skip("it is run by TestAmounts")
	}
	size, err := strconv.Atoi(os.Getenv(sizeVariable))
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	defer func() { _ = store.Close() }()
	made, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	input := f.inputs[os.Getenv(inputVariable)](size / 16 * 15) // with what is around it, it is below a limit of 1 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.do(await.Context(t), &world{t, store, made.ID}, input)
	runtime.ReadMemStats(&after)
	fmt.Printf("allocated %d\n", after.TotalAlloc-before.TotalAlloc)
}

// amount is what a function did.
type amount struct{ statements, allocated int64 }

// run has a process run a function.
func run(t *testing.T, binary, function, input string, size int) (a amount) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	command := exec.CommandContext(t.Context(), binary, "-test.run=^TestOne$", "-test.coverprofile="+profile)
	// Without a collection, and on one processor, what a pool gives again is the same each time.
	command.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1", functionVariable+"="+function, inputVariable+"="+input, sizeVariable+"="+strconv.Itoa(size))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, output)
	}
	if _, err := fmt.Fscanf(bytes.NewReader(output), "allocated %d", &a.allocated); err != nil {
		t.Fatalf("%v: %.2000s", err, output)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			statements, _ := strconv.ParseInt(fields[1], 10, 64)
			times, _ := strconv.ParseInt(fields[2], 10, 64)
			a.statements += statements * times
		}
	}
	return a
}

// Sixteen times the bytes of hostile text take twenty times the work at most: so none is looked at again and again. A function that does is
// found.
func TestAmounts(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "amounts")
	const counted = "github.com/seed-df90f812/agentstore/...,encoding/json,regexp,strings,bytes,slices,html/template,text/template/parse"
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=count", "-coverpkg="+counted, "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		for input := range functions[name].inputs {
			few, much := run(t, binary, name, input, small), run(t, binary, name, input, large)
			statements, allocated := float64(much.statements)/float64(few.statements), float64(much.allocated)/float64(few.allocated)
			t.Logf("%s of %q: %.1f times the statements (%.1f for each byte), %.1f times the bytes", name, input, statements, float64(much.statements)/large, allocated)
			if slow := name == naive; max(statements, allocated) > mostTimes != slow {
				t.Errorf("%s of %q: %.1f times the statements, %.1f times the bytes; it should be %s", name, input, statements, allocated, functions[name].bound)
			}
		}
	}
}

// naive looks from every 4 KiB on for the end of a word that has none.
const naive = "a naive search"

func init() {
	functions[naive] = function{"quadratic", repeated("a"), func(_ context.Context, _ *world, input string) {
		for i := 0; i < len(input); i += 4 << 10 {
			strings.IndexFunc(input[i:], func(c rune) bool { return c == ';' })
		}
	}}
}
