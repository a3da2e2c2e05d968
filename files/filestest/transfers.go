package filestest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// document returns a session as a document, and its files.
func (w *world) document(id repo.ID) (document, archive *bytes.Buffer) {
	w.Helper()
	document, archive = &bytes.Buffer{}, &bytes.Buffer{}
	w.check(w.store.Sessions().Export(w.Context(), id, document))
	w.check(w.Export(w.Context(), id, archive))
	return document, archive
}

// A session and its files come back from their documents, with the same ids.
func testTransfer(w *world) {
	id := w.session()
	owner := files.OfSession(id)
	large := string(random(1<<20 + 5))
	saved := map[*files.File]string{}
	for _, text := range []string{"one", "one", "", large} {
		file := w.save(owner, "f", text)
		saved[&file] = text
	}
	document, archive := w.document(id)
	_, err := w.store.Sessions().Delete(w.Context(), id)
	w.check(err)
	w.clean(0)
	_, err = w.store.Sessions().Import(w.Context(), document, true)
	w.check(err)
	for file := range saved {
		w.hasNot(owner, *file)
	}
	fresh := w.files(namespace, files.Options{}) // the notes of the other one have become too old

	for _, cut := range []int{0, 100, 512, 1024, 2048, len(archive.Bytes()) / 2} { // between two entries, and in one
		err := fresh.Import(w.Context(), id, bytes.NewReader(archive.Bytes()[:cut]))
		if !errors.Is(err, repo.ErrImport) && !errors.Is(err, io.ErrUnexpectedEOF) {
			w.Errorf("cut at %d: %v", cut, err)
		}
	}
	for range 2 {
		w.check(fresh.Import(w.Context(), id, bytes.NewReader(archive.Bytes())))
	}
	for file, text := range saved {
		w.has(owner, *file, text)
	}
	if next := w.save(owner, "f", "next"); next.Version != 5 {
		w.Errorf("%+v", next)
	}
	w.clean(4)
	if err := w.Import(w.Context(), repo.NewID(), archive); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
}

// Bytes that no file of the session has, and what is no tar, are refused.
func testForeignTransfer(w *world) {
	a, b := w.session(), w.session()
	w.save(files.OfSession(a), "f", "one")
	file := w.save(files.OfSession(b), "f", "two")
	_, archive := w.document(a)
	forged := bytes.ReplaceAll(archive.Bytes(), []byte("one"), []byte("two"))
	for name, data := range map[string][]byte{
		"another's": archive.Bytes(), "forged": forged, "no tar": []byte(strings.Repeat("x", 2000)), "cut": archive.Bytes()[:700],
	} {
		if err := w.Import(w.Context(), b, bytes.NewReader(data)); !errors.Is(err, repo.ErrImport) && !errors.Is(err, io.ErrUnexpectedEOF) {
			w.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Import(w.Context(), a, bytes.NewReader(archive.Bytes())); err != nil {
		w.Error(err)
	}
	if w.blobs.puts != 2 {
		w.Errorf("%d were put", w.blobs.puts)
	}
	if err := w.Import(w.Context(), a, bytes.NewReader(forged)); !errors.Is(err, repo.ErrImport) {
		w.Error(err)
	}
	w.has(files.OfSession(b), file, "two")
	w.clean(2)
}

// A writer of a session's state gets no bytes that the session does not have.
func testForged(w *world) {
	a, b := files.OfSession(w.session()), w.session()
	secret, own := w.save(a, "f", "secret"), w.save(files.OfSession(b), "g", "own")
	forged := secret
	forged.Name, forged.Version = "f", 1
	record, err := json.Marshal(forged)
	w.check(err)
	mixed := secret
	mixed.ID = own.ID
	other, err := json.Marshal(mixed)
	w.check(err)
	scope := repo.Scope{SessionID: b}
	_, err = w.store.State().Change(w.Context(), []repo.StateChange{
		{Scope: scope, Key: "file/f/0000000000000001", Value: record},
		{Scope: scope, Key: "file-id/" + secret.ID, Value: object(`"file/f/0000000000000001"`)},
		{Scope: scope, Key: "file/h/0000000000000001", Value: other},
	})
	w.check(err)
	w.hasNot(files.OfSession(b), secret)
	if r, err := w.Open(w.Context(), files.OfSession(b), "h", 1); !errors.Is(err, repo.ErrNotFound) {
		w.Error(r, err)
	}
	if _, err := w.Delete(w.Context(), files.OfSession(b), "f"); err != nil {
		w.Error(err)
	}
	w.clean(2)
	w.has(a, secret, "secret")
}

// A session that is restored while a sweep finds it gone keeps what its files refer to.
func testRestored(w *world) {
	id := w.session()
	file := w.save(files.OfSession(id), "f", "one")
	document, archive := w.document(id)
	for range 3 {
		_, err := w.store.Sessions().Delete(w.Context(), id)
		w.check(err)
		_, err = w.store.Sessions().Import(w.Context(), bytes.NewReader(document.Bytes()), true)
		w.check(err)
		w.has(files.OfSession(id), file, "one") // as long as no sweep came in between
		w.check(w.Import(w.Context(), id, bytes.NewReader(archive.Bytes())))
		w.clean(1)
		w.has(files.OfSession(id), file, "one")
	}
}

// A namespace has its own files and its own bytes.
func testViews(w *world) {
	other := w.files("other", files.Options{})
	owner := files.OfUser("jane")
	file := w.save(owner, "f", "the same")
	if _, err := other.OpenID(w.Context(), owner, file.ID); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	same, err := other.Save(w.Context(), owner, files.NewFile{Name: "f"}, strings.NewReader("the same"))
	w.check(err)
	if same.Version != 1 || w.blobs.puts != 2 {
		w.Errorf("%+v; %d puts", same, w.blobs.puts)
	}
	_, err = w.Delete(w.Context(), owner, "f")
	w.check(err)
	w.sweep()
	w.all.Elapse(2 * time.Hour)
	w.sweep()
	w.hasBlobs(1)
	r, err := other.OpenID(w.Context(), owner, same.ID)
	w.check(err)
	if text := read(r); text != "the same" {
		w.Error(text)
	}
	session := w.session()
	if _, err := other.Save(w.Context(), files.OfSession(session), files.NewFile{Name: "f"}, strings.NewReader("x")); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if _, err := files.New(nil, "", w.blobs, files.Options{}); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
	for _, options := range []files.Options{{MaxBytes: -1}, {Grace: time.Second}} {
		if _, err := files.New(w.all.Store, "", w.blobs, options); !errors.Is(err, repo.ErrInvalid) {
			w.Error(err)
		}
	}
}

// The handler serves ranges, knows what a client has, and lets a browser run nothing.
func testHandler(w *world) {
	owner := files.OfSession(w.session())
	picture, err := w.Save(w.Context(), owner, files.NewFile{Name: "a \"b\"\r\n/é.png", Type: "image/png"}, strings.NewReader("0123456789"))
	w.check(err)
	page, err := w.Save(w.Context(), owner, files.NewFile{Name: "\u202elmth.page\u0085", Type: "text/html; charset=utf-8"}, strings.NewReader("<script>"))
	w.check(err)
	denied := errors.New("denied")
	mux := http.NewServeMux()
	mux.Handle("/{id}", w.Handler(func(r *http.Request) (files.Owner, string, error) {
		switch r.Header.Get("Who") {
		case "nobody":
			return files.Owner{}, "", denied
		case "joe":
			return files.OfUser("joe"), r.PathValue("id"), nil
		case "gone":
			return files.Owner{}, "", &repo.NotFoundError{Kind: "session"}
		}
		return owner, r.PathValue("id"), nil
	}))
	ask := func(method, id string, headers ...string) (*httptest.ResponseRecorder, string) {
		r := httptest.NewRequestWithContext(w.Context(), method, "/"+id, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		recorded := httptest.NewRecorder()
		mux.ServeHTTP(recorded, r)
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "private, no-cache",
		} {
			if got := recorded.Header().Get(header); got != want && recorded.Code < 400 {
				w.Errorf("%s: %q", header, got)
			}
		}
		return recorded, recorded.Body.String()
	}
	for _, c := range []struct {
		method, id string
		headers    []string
		status     int
		body       string
	}{
		{"GET", picture.ID, nil, 200, "0123456789"},
		{"HEAD", picture.ID, nil, 200, ""},
		{"GET", picture.ID, []string{"Range", "bytes=2-4"}, 206, "234"},
		{"GET", picture.ID, []string{"Range", "bytes=-1"}, 206, "9"},
		{"GET", picture.ID, []string{"Range", "bytes=20-"}, 416, ""},
		{"GET", picture.ID, []string{"Range", "bytes=0-0,2-2,4-4"}, 200, "0123456789"},
		{"GET", picture.ID, []string{"Range", "bytes=2-4", "If-Range", `"` + picture.SHA256 + `"`}, 206, "234"},
		{"GET", picture.ID, []string{"Range", "bytes=2-4", "If-Range", `"other"`}, 200, "0123456789"},
		{"GET", picture.ID, []string{"If-None-Match", `"` + picture.SHA256 + `"`}, 304, ""},
		{"POST", picture.ID, nil, 405, ""},
		{"GET", picture.ID, []string{"Who", "nobody"}, 403, ""},
		{"GET", picture.ID, []string{"Who", "joe"}, 404, ""},
		{"GET", picture.ID, []string{"Who", "gone"}, 404, ""},
		{"GET", "nothing", nil, 404, ""},
	} {
		response, body := ask(c.method, c.id, c.headers...)
		if response.Code != c.status || c.status < 400 && body != c.body {
			w.Errorf("%+v: %d %q", c, response.Code, body)
		}
	}
	response, _ := ask("GET", picture.ID)
	if got := response.Header().Get("Content-Disposition"); got != `inline; filename*=utf-8''a%20%22b%22___%C3%A9.png` || response.Header().Get("Content-Type") != "image/png" {
		w.Errorf("%s, %v", got, response.Header())
	}
	response, _ = ask("GET", page.ID)
	if got := response.Header().Get("Content-Disposition"); got != `attachment; filename=_lmth.page_` || response.Header().Get("ETag") != fmt.Sprintf("%q", page.SHA256) {
		w.Errorf("%s, %v", got, response.Header())
	}
}
