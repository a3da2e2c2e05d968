package live

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkOrigin refuses requests of pages of other origins than the handler's, unless they are
// listed. It tells the browser that a listed one is allowed.
func (h *Handler) checkOrigin(w http.ResponseWriter, r *http.Request) error {
	if len(h.options.Origins) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	switch {
	case origin != "" && slices.Contains(h.options.Origins, strings.ToLower(origin)):
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		return nil
	case sameOrigin(r, origin):
		return nil
	}
	return &StatusError{Status: http.StatusForbidden, Public: "this origin is not allowed"}
}

// sameOrigin reports whether the request comes from a page of the handler's origin, or
// from no page of another one.
func sameOrigin(r *http.Request, origin string) bool {
	// Browsers set this header themselves. It holds also behind a proxy that changes Host.
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin", "none":
		return true
	case "cross-site", "same-site":
		return false // a page of another origin can embed the address without an Origin
	}
	if origin == "" {
		return true // no browser, or one that leaves it out for its own origin
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// methods are the handler's.
const methods = "GET, HEAD, OPTIONS"

// allow answers OPTIONS. Scripts that read with fetch may need the headers.
func allow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", methods)
	if w.Header().Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		w.Header().Set("Access-Control-Allow-Methods", methods)
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Cache-Control, Last-Event-ID")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}
