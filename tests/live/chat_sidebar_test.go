package live

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// dot is a picture of one pixel.
const dot = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// attach chooses the picture for the next question.
func (p *chatPage) attach() {
	p.do(`const chosen = new DataTransfer()
chosen.items.add(new File([Uint8Array.from(` + strconv.QuoteToASCII(dot) + `, c => c.charCodeAt(0))], 'dot.gif', {type: 'image/gif'}))
document.querySelector('[name=picture]').files = chosen.files`)
}

// press clicks a button of a conversation at the left side.
func (p *chatPage) press(row int, button string) {
	p.do(`[...document.querySelectorAll('nav div')[` + strconv.Itoa(row) + `].querySelectorAll('button')].find(b => b.textContent === ` + strconv.Quote(button) + `).click()`)
}

// clickSide clicks a button below the conversations at the left side.
func (p *chatPage) clickSide(button string) {
	p.do(`[...document.querySelectorAll('nav > button')].find(b => b.textContent === ` + strconv.Quote(button) + `).click()`)
}

// awaitRows waits until the left side has these conversations and no others.
func (p *chatPage) awaitRows(rows ...string) {
	p.Helper()
	p.shows("at the left side: "+strings.Join(rows, ", "), func(now pageContent) bool { return slices.Equal(now.Rows, rows) })
}

// status returns that of the answer to a request without a body.
func (v *visitor) status(method, path string) int {
	v.Helper()
	return v.do(method, path, "", nil).status
}

// TestPictureInBrowser attaches a picture in one window, and deletes its message. The other window shows the picture, and then
// neither it nor the text.
func TestPictureInBrowser(t *testing.T) {
	t.Parallel()
	for name, databaseURL := range map[string]string{"Memory": "", "PostgreSQL": pgtest.NewEmptyDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := newVisitor(t, startChat(t, databaseURL))
			one, two := openChatPage(t, user, "#c1"), openChatPage(t, user, "#c1")
			one.attach()
			one.ask("what is this?")
			const answer = "You said: “what is this?”. "
			var shown []string
			for _, window := range []*chatPage{one, two} {
				window.awaitMessages([]string{"", ""}, "what is this?", answer)
				window.shows("the picture", func(now pageContent) bool { shown = now.Pictures; return len(shown) == 1 })
			}
			picture := shown[0]
			body, err := io.ReadAll(user.do(http.MethodGet, picture, "", nil).body)
			if err != nil || string(body) != dot {
				t.Errorf("the picture is %q, %v", body, err)
			}
			if status := newVisitor(t, user.address).status(http.MethodGet, picture); status != http.StatusNotFound {
				t.Errorf("the picture for a stranger: status %d", status)
			}

			one.click(0, "delete")
			for _, window := range []*chatPage{one, two} {
				window.awaitMessages([]string{"", ""}, "erased", answer)
				window.shows("no picture", func(now pageContent) bool { return len(now.Pictures) == 0 })
			}
			if status := user.status(http.MethodGet, picture); status != http.StatusNotFound {
				t.Errorf("the picture of a message that was deleted: status %d", status)
			}
			two.reload()
			two.awaitMessages([]string{"", ""}, "erased", answer)
			two.ask("and now?")
			two.awaitMessages(make([]string, 4), "erased", answer, "and now?", "You said: “and now?”. ")
			one.awaitMessages(make([]string, 4), "erased", answer, "and now?", "You said: “and now?”. ")
		})
	}
}

// TestDeleteDuringAnswer deletes a message while a question is being answered, as another window may. That ends the answer; the
// question can be given another one.
func TestDeleteDuringAnswer(t *testing.T) {
	t.Parallel()
	p := startChatPage(t)
	p.ask("one")
	p.awaitMessages([]string{"", ""}, "one", "You said: “one”. ")
	p.ask("two")
	p.shows("an answer begins", func(now pageContent) bool { return len(now.Shown) == 4 })
	p.do("call('DELETE', `/${conversation}/messages/${messages.get(1).id}`)")
	p.shows("the message is deleted", func(now pageContent) bool { return now.Shown[1] == "erased" })
	p.do(`[...document.querySelectorAll('button')].find(b => b.textContent === 'answer')?.click()`) // unless the answer came first
	p.awaitMessages(make([]string, 4), "one", "erased", "two", "You said: “two”. ")
	p.ask("three")
	p.awaitMessages(make([]string, 6), "one", "erased", "two", "You said: “two”. ", "three", "You said: “three”. ")
}

// TestSidebarInBrowser leaves a conversation while it is answered, and sees that there is something unread, until it is read in
// another window; it renames, stars and archives.
func TestSidebarInBrowser(t *testing.T) {
	t.Parallel()
	user := newVisitor(t, startChat(t, ""))
	one, two := openChatPage(t, user, "#c1"), openChatPage(t, user, "")
	two.ask("first")
	two.awaitMessages([]string{"", ""}, "first", "You said: “first”. ")
	one.awaitRows("☆first")
	user.ask("q1", "second", http.StatusOK) // in the conversation that the other window has
	one.awaitMessages([]string{"", ""}, "second", "You said: “second”. ")
	two.awaitRows("☆second", "☆first")

	one.clickSide("new")
	one.shows("the new conversation", func(now pageContent) bool { return now.Load > 1 && len(now.Rows) == 2 && len(now.Shown) == 0 })
	user.ask("q2", "third", http.StatusOK)
	for _, window := range []*chatPage{one, two} {
		window.awaitRows("☆second (2)", "☆first")
	}
	two.do("location.hash = 'c1'")
	for _, window := range []*chatPage{one, two} {
		window.awaitRows("☆second", "☆first")
	}

	one.press(1, "☆")
	two.awaitRows("★first", "☆second")
	two.press(0, "rename")
	two.shows("a field", func(now pageContent) bool { return now.Rows[0] == "★" })
	two.do(`const field = document.querySelector('nav input')
field.value = 'renamed'
field.dispatchEvent(new Event('change'))`)
	one.awaitRows("★renamed", "☆second")
	one.press(1, "archive")
	two.awaitRows("★renamed")
	two.clickSide("archived")
	two.awaitRows("☆second")
	two.press(0, "restore")
	one.awaitRows("★renamed", "☆second")
}

// TestLinkInBrowser shares a conversation: a stranger with the link reads what was shown, and nothing that came later.
func TestLinkInBrowser(t *testing.T) {
	t.Parallel()
	user := newVisitor(t, startChat(t, ""))
	page := openChatPage(t, user, "#c1")
	page.ask("a <b>question</b>")
	page.awaitMessages([]string{"", ""}, "a <b>question</b>", "You said: “a <b>question</b>”. ")
	page.clickSide("share")
	link := ""
	page.shows("the link", func(now pageContent) bool { link = now.Link; return link != "" })
	page.ask("a secret")
	page.awaitMessages(make([]string, 4), "a <b>question</b>", "You said: “a <b>question</b>”. ", "a secret", "You said: “a secret”. ")
	page.awaitRows("☆a <b>question</b>") // the link is not among the conversations

	shown := openChatPage(t, newVisitor(t, user.address), strings.TrimPrefix(link, "/"))
	shown.shows("the conversation", func(now pageContent) bool {
		return len(now.Shown) == 2 && now.Shown[0] == "a <b>question</b>" && strings.HasSuffix(now.Shown[1], whole)
	})
	if status := user.status(http.MethodGet, link[:len(link)-1]); status != http.StatusNotFound {
		t.Errorf("a link that is cut short: status %d", status)
	}
}

// TestPictureOnce sends a question with its picture again, and what is refused.
func TestPictureOnce(t *testing.T) {
	t.Parallel()
	for name, databaseURL := range map[string]string{"Memory": "", "PostgreSQL": pgtest.NewEmptyDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := newVisitor(t, startChat(t, databaseURL))
			for range 2 {
				if status := user.upload("q1", "image/gif", dot); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			}
			events, picture := user.follow(""), ""
			for picture == "" {
				picture = events.message().Metadata.Picture
			}
			if next := events.message(); next.Role != "assistant" {
				t.Errorf("the question is stored twice: %+v", next)
			}
			for _, refused := range []struct {
				kind, bytes string
				status      int
			}{{"text/html", "<script>", http.StatusConflict}, {"image/gif", strings.Repeat("x", 9<<20), http.StatusRequestEntityTooLarge}} {
				if status := user.upload("q2", refused.kind, refused.bytes); status != refused.status {
					t.Errorf("%s: status %d, want %d", refused.kind, status, refused.status)
				}
			}
			stranger := newVisitor(t, user.address)
			for path, method := range map[string]string{
				"": http.MethodPatch, "/read?next=1": http.MethodPost, "/share?at=0": http.MethodPost,
				"/pictures/" + picture: http.MethodGet, "/messages/00000000-0000-7000-8000-000000000000": http.MethodDelete,
			} {
				if status := stranger.status(method, conversation+path); status != http.StatusNotFound {
					t.Errorf("%s %q of a stranger: status %d", method, path, status)
				}
			}
		})
	}
}

// upload sends a question with a picture.
func (v *visitor) upload(id, kind, picture string) int {
	v.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("text", "what is this?")
	header := textproto.MIMEHeader{"Content-Type": {kind}, "Content-Disposition": {`form-data; name="picture"; filename="dot"`}}
	part, err := form.CreatePart(header)
	if err != nil {
		v.Fatal(err)
	}
	_, _ = part.Write([]byte(picture))
	_ = form.Close()
	address, err := url.JoinPath(v.address, conversation, id)
	if err != nil {
		v.Fatal(err)
	}
	request, err := http.NewRequestWithContext(await.Context(v), http.MethodPut, address, &body)
	if err != nil {
		v.Fatal(err)
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set("Cookie", v.cookie)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
