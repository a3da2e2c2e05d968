package inspect_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// skeleton is a page without its texts: its tags, and the names of their attributes. A value ends with its quote, which the
// templates always write.
func skeleton(page string) string {
	return regexp.MustCompile(`>[^<]*<`).ReplaceAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, `""`), "><")
}

// TestSteering: what would turn a line, or command a terminal, is shown as its number.
func TestSteering(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	id := must[repo.Session](t)(store.Sessions().Create(t.Context(), repo.NewSession{})).ID
	must[[]repo.Message](t)(store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "a\u202eb\x1b[2J"}))
	if body := newClient(t, store, operator).get("/sessions/"+id.String(), http.StatusOK); !strings.Contains(body, `a\u202eb\u001b[2J`) {
		t.Errorf("the page is %s", body)
	}
}

// FuzzHostile shows a message, its kind, its call, the key and owner of its session, and a model and labels that are made to break
// out: the page has the tags that it has with harmless ones, no character that steers, and as JSON the values themselves.
// Guarantee: Inspector: Whatever messages and names contain is shown as text: no markup, no command to a terminal, no change of direction.
func FuzzHostile(f *testing.F) {
	for _, seed := range []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</div></article><h1>", "javascript:alert(1)", "{{.Look}} ${1} `", "' onfocus='alert(1)",
		"\x1b]0;title\x07\x1b[2J", "user\u202egnp.exe", "a\u200bb\u2066c\ufe0f\U000e0001", "\u2028\u2029\u0085\r\n\t", "<!--", "]]>", "&lt;b&gt;&#60;", "日本語 עברית",
		strings.Repeat("<b>", 400), "\u0000", "\xff\xfe",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) == 0 || len(text) > 5000 || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Skip("no store accepts it")
		}
		var pages [2][]string
		for i, text := range []string{text, strings.Repeat("x", len(text))} {
			store := newStore(t)
			short := text[:min(len(text), repo.MaxNameBytes)]
			for !utf8.ValidString(short) {
				short = short[:len(short)-1]
			}
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: short, Key: short, Owner: short, Actor: short})
			if err != nil {
				t.Skip("no store accepts it as a name")
			}
			message := repo.NewMessage{Role: repo.RoleAssistant, Content: text, Kind: short, CallID: short, Payload: []byte(text)}
			must[[]repo.Message](t)(store.Sessions().Append(t.Context(), session.ID, message))
			stream := must[repo.Stream](t)(store.Streams().Open(t.Context(), repo.NewStream{Key: short, Owner: short, Session: session.ID}))
			must[int64](t)(store.Streams().Append(t.Context(), stream, []byte(text)))
			tiny := short[:min(len(short), 100)]
			for !utf8.ValidString(tiny) {
				tiny = tiny[:len(tiny)-1]
			}
			counted(t, store, usage.Use{Day: "2026-03-31", Model: tiny, Labels: [2]string{tiny, tiny}, Usage: repo.Usage{Cost: 1}})
			c := newClient(t, store, operator, func(o *inspect.Options) { o.Redact = func(s string) string { return s } })
			for _, path := range []string{"/sessions/" + session.ID.String(), "/namespaces", "/streams?session=" + session.ID.String(), "/usage?to=2026-03-31"} {
				page := strings.ReplaceAll(c.get(path, http.StatusOK), session.ID.String(), "")
				for _, r := range page {
					if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector) && r != '\n' && r != '\t' {
						t.Fatalf("%s has the character %U", path, r)
					}
				}
				pages[i] = append(pages[i], skeleton(page))
			}
			var document struct {
				Messages struct{ Items []struct{ Content string } }
			}
			body := c.get("/sessions/"+session.ID.String()+"?format=json", http.StatusOK)
			if err := json.Unmarshal([]byte(body), &document); err != nil || document.Messages.Items[0].Content != text {
				t.Fatalf("as JSON it is %q, %v", document.Messages.Items, err)
			}
			if f := c.figures("?to=2026-03-31"); f.Days.Items[0].Model != tiny || f.Labels.Items[0].Label1 != tiny || f.Labels.Items[0].Label2 != tiny {
				t.Fatalf("as JSON it is %+v", f)
			}
			if strings.ContainsAny(body, "<>\x1b\u202e\u2066") {
				t.Error("the JSON has what could be obeyed")
			}
		}
		for i := range pages[0] {
			if pages[0][i] != pages[1][i] {
				t.Fatalf("the page is\n%s\nwant\n%s", pages[0][i], pages[1][i])
			}
		}
	})
}
