package main

import (
	"context"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

// linkLife is for how long a link can be opened.
const linkLife = 30 * 24 * time.Hour

// share makes a link to the conversation up to one of its messages.
func (c chat) share(w http.ResponseWriter, r *http.Request) {
	at, err := strconv.ParseInt(r.FormValue("at"), 10, 64)
	if err != nil {
		respond(w, nil, &repo.InvalidError{Field: "at", Reason: "is no number"})
		return
	}
	session, err := c.Sessions().Find(r.Context(), key(r))
	if err != nil {
		respond(w, nil, err)
		return
	}
	_, token, err := c.links.Create(r.Context(), session, at, linkLife)
	respond(w, "/shared/"+token, err)
}

var sharedPage = template.Must(template.New("shared").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>a shared chat</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 45em; margin: 2em auto } p { white-space: pre-wrap } .user { font-weight: bold }</style>
{{range .}}{{if .Content}}<p class="{{.Role}}">{{.Content}}</p>{{end}}
{{end}}`))

// shared is the page of a link. The token is all that it asks for.
func (c chat) shared(w http.ResponseWriter, r *http.Request) {
	messages, err := c.sharedMessages(r.Context(), r.PathValue("token"))
	if err != nil {
		respond(w, nil, err)
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	_ = sharedPage.Execute(w, messages)
}

// sharedMessages returns all pages of what a link shows.
func (c chat) sharedMessages(ctx context.Context, token string) (messages []repo.Message, err error) {
	page := share.Shared{More: true}
	for err == nil && page.More {
		page, err = c.links.Open(ctx, token, share.Show{From: page.Next})
		messages = append(messages, page.Messages...)
	}
	return messages, err
}
