package files

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-df90f812/agentstore/repo"
)

// inline are the types that a browser may show in place: none of them runs anything.
var inline = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}

// Handler serves versions by their ids, each whole or one range of it, with its hash as ETag. authorize says whose
// files a request may have, and which version it asks for, such as OfSession of a session that the user may read, and
// r.PathValue("id"); the version is then looked for among these files alone. A browser shows PNG, JPEG, GIF, WebP and
// PDF, and saves everything else; it guesses no type, and runs nothing in the name of the site.
//
// Statuses: 403 for an error of authorize, or 404 if that matches repo.ErrNotFound; 404 for a version that is not
// there; 405 for methods other than GET and HEAD; 503 if the store fails.
func (f *Files) Handler(authorize func(r *http.Request) (owner Owner, id string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		w.Header().Set("Cache-Control", "private, no-cache") // the right to read is checked again
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed)
			return
		}
		owner, id, err := authorize(r)
		if err != nil {
			refuse(w, statusOf(err, http.StatusForbidden))
			return
		}
		file, err := f.OpenID(r.Context(), owner, id)
		if err != nil {
			refuse(w, statusOf(err, http.StatusServiceUnavailable))
			return
		}
		defer func() { _ = file.Close() }()
		w.Header().Set("Content-Type", file.Type)
		w.Header().Set("Content-Disposition", disposition(file.File))
		w.Header().Set("ETag", `"`+file.SHA256+`"`)
		if strings.Contains(r.Header.Get("Range"), ",") { // each of many ranges would be a statement
			r = r.Clone(r.Context())
			r.Header.Del("Range")
		}
		http.ServeContent(w, r, "", file.SavedAt, file)
	})
}

func statusOf(err error, other int) int {
	if errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrInvalid) {
		return http.StatusNotFound
	}
	return other
}

func refuse(w http.ResponseWriter, status int) { http.Error(w, http.StatusText(status), status) }

// disposition returns how a browser takes a file, with its name (RFC 6266).
func disposition(f File) string {
	how := "attachment"
	if media, _, err := mime.ParseMediaType(f.Type); err == nil && slices.Contains(inline, media) {
		how = "inline"
	}
	name := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) || r == '/' || r == '\\' { // "exe.png" may end in ".exe"
			return '_'
		}
		return r
	}, f.Name)
	return mime.FormatMediaType(how, map[string]string{"filename": name})
}
