package main

import (
	"errors"
	"net/http"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// erase removes what one message says, for ever, and its picture. The message keeps its place.
func (c chat) erase(w http.ResponseWriter, r *http.Request) {
	message, err := c.message(r)
	for _, picture := range files.References(message) {
		if _, failed := c.pictures.Delete(r.Context(), files.OfSession(message.SessionID), picture.Name); !errors.Is(failed, repo.ErrNotFound) {
			err = errors.Join(err, failed)
		}
	}
	if err == nil {
		cause := repo.Cause{Actor: "chat", Reason: "its user has deleted it"}
		err = c.Sessions().Redact(r.Context(), message.SessionID, []int64{message.Sequence}, cause)
	}
	respond(w, nil, err)
}

// message returns the message of a request, of one of the user's own conversations, on whatever branch.
func (c chat) message(r *http.Request) (repo.Message, error) {
	session, err := c.Sessions().Find(r.Context(), key(r))
	if err != nil {
		return repo.Message{}, err
	}
	id, err := repo.ParseID(r.PathValue("message"))
	if err != nil {
		return repo.Message{}, err
	}
	return c.Sessions().Message(r.Context(), session, id)
}
