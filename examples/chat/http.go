package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed-df90f812/agentstore/repo"
)

// The bounds of a request, with its picture, and of a question, in bytes. The page checks the size of a picture before
// it sends it.
const (
	maxRequest = 8 << 20
	maxText    = 64 << 10
)

// handler serves the page and what it asks for.
func (c chat) handler(feed http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /conversations", c.list)
	mux.HandleFunc("PATCH /conversations/{id}", c.arrange)
	mux.HandleFunc("POST /conversations/{id}/read", c.markRead)
	mux.HandleFunc("POST /conversations/{id}/share", c.share)
	mux.HandleFunc("GET /shared/{token}", c.shared)
	mux.HandleFunc("PUT /conversations/{id}/{question}", c.ask)
	mux.Handle("GET /conversations/{id}", feed)
	mux.HandleFunc("DELETE /conversations/{id}/messages/{message}", c.erase)
	mux.Handle("GET /conversations/{id}/pictures/{picture}", c.pictures.Handler(c.pictureOf))
	return http.NewCrossOriginProtection().Handler(login(readForm(mux)))
}

// readForm reads the fields of a request once, so that one that is too large or cut short is refused, rather than
// understood without what is missing.
func readForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		err := r.ParseForm()
		if err == nil {
			err = r.ParseMultipartForm(maxRequest) //nolint:gosec // the body is bounded
		}
		if err != nil && !errors.Is(err, http.ErrNotMultipart) || len(r.FormValue("text")) > maxText {
			http.Error(w, "too large, or cut short", http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// respond answers with a result, or with what an error means to the page: from status 500 on it tries again.
func respond(w http.ResponseWriter, result any, err error) {
	switch {
	case err == nil:
		_ = json.NewEncoder(w).Encode(result)
	case errors.Is(err, repo.ErrNotFound):
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, repo.ErrInvalid), errors.Is(err, repo.ErrConflict), errors.Is(err, repo.ErrLimit):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}
