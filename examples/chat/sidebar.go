package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/repo"
)

// sidebar is the directory of the user's conversations.
func (c chat) sidebar(r *http.Request) (*directory.Directory, error) {
	return directory.New(c.In(namespace), r.PathValue("user"))
}

// row is what the page shows of a conversation at its left side.
type row struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Starred  bool   `json:"starred,omitempty"`
	Archived bool   `json:"archived,omitempty"`
	Unread   int64  `json:"unread,omitempty"`
}

// list returns the user's conversations: those with a star first, then the last active ones; or the archived ones.
func (c chat) list(w http.ResponseWriter, r *http.Request) {
	sidebar, err := c.sidebar(r)
	if err != nil {
		respond(w, nil, err)
		return
	}
	archived := r.Form.Has("archived")
	found, err := sidebar.List(r.Context(), directory.Selection{Archived: archived, StarredFirst: !archived}, repo.Page{})
	rows := []row{}
	for _, conversation := range found.Items {
		rows = append(rows, rowOf(conversation))
	}
	respond(w, rows, err)
}

// rowOf returns the row of a conversation, whose title is its first question until the user gives it another one.
func rowOf(c directory.Conversation) (shown row) {
	_ = json.Unmarshal(c.Session.Metadata, &shown)
	shown.Title = cmp.Or(c.Title, shown.Title)
	shown.Starred, shown.Archived, shown.Unread = c.Starred, c.Archived, c.Unread
	return shown
}

// arrange renames, stars or archives a conversation, or undoes that. What the request does not name stays.
func (c chat) arrange(w http.ResponseWriter, r *http.Request) {
	var edit directory.Edit
	if r.Form.Has("title") {
		edit.Title = new(r.FormValue("title"))
	}
	if r.Form.Has("starred") {
		edit.Starred = new(r.FormValue("starred") == "true")
	}
	if r.Form.Has("archived") {
		edit.Archived = new(r.FormValue("archived") == "true")
	}
	session, err := c.Sessions().Find(r.Context(), key(r))
	if err != nil {
		respond(w, nil, err)
		return
	}
	sidebar, err := c.sidebar(r)
	if err == nil {
		_, err = sidebar.Set(r.Context(), session, edit)
	}
	respond(w, nil, err)
}

// markRead stores up to which message the user has read a conversation, in whatever window.
func (c chat) markRead(w http.ResponseWriter, r *http.Request) {
	next, err := strconv.ParseInt(r.FormValue("next"), 10, 64)
	if err != nil {
		respond(w, nil, &repo.InvalidError{Field: "next", Reason: "is no number"})
		return
	}
	session, err := c.Sessions().Find(r.Context(), key(r))
	if err != nil {
		respond(w, nil, err)
		return
	}
	sidebar, err := c.sidebar(r)
	if err == nil {
		_, err = sidebar.MarkRead(r.Context(), session, next)
	}
	respond(w, nil, err)
}
