package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A browser sends a cookie of 127.0.0.1 to the servers on all of its ports. The cookie is not the
// token, and is made and taken under a name that no other server has.
func TestDoor(t *testing.T) {
	d := newDoor(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	pages := d.open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.check(r) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	get := func(host, target string, cookies ...*http.Cookie) (status int, given []*http.Cookie) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Host = host
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, r)
		response := answer.Result()
		_ = response.Body.Close()
		return response.StatusCode, response.Cookies()
	}
	status := func(host, target string, cookies ...*http.Cookie) int {
		code, _ := get(host, target, cookies...)
		return code
	}
	_, rest, _ := strings.Cut(d.address(), "http://")
	host, target, _ := strings.Cut(rest, "/")
	if !strings.HasSuffix(host, ".localhost:8080") {
		t.Errorf("the address is %s", d.address())
	}
	code, cookies := get(host, "/"+target)
	if code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("the token gave %d, %v", code, cookies)
	}
	cookie := cookies[0]
	if cookie.Value == d.token || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	token := *cookie
	token.Value = d.token
	for name, at := range map[string]struct {
		status, want int
	}{
		"the cookie":                          {status(host, "/", cookie), http.StatusOK},
		"the cookie through a tunnel":         {status(strings.Replace(host, "8080", "9090", 1), "/", cookie), http.StatusOK},
		"no cookie":                           {status(host, "/"), http.StatusUnauthorized},
		"the token as the cookie":             {status(host, "/", &token), http.StatusUnauthorized},
		"the cookie under another name":       {status("127.0.0.1:8080", "/", cookie), http.StatusUnauthorized},
		"the token under another name":        {status("127.0.0.1:8080", "/"+target), http.StatusUnauthorized},
		"the token under a name that ends so": {status("x."+host, "/"+target), http.StatusUnauthorized},
	} {
		if at.status != at.want {
			t.Errorf("%s: status %d", name, at.status)
		}
	}
	if other := newDoor(&net.TCPAddr{IP: net.IPv4zero, Port: 8080}); other.name != "" || !strings.HasPrefix(other.address(), "http://0.0.0.0:8080/?") {
		t.Errorf("for other machines: %s", other.address())
	}
}
