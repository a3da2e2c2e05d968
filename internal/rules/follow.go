package rules

import "github.com/seed-df90f812/agentstore/repo"

// CannotFollow is the error of following a session in a transaction.
func CannotFollow() error {
	return invalid("transaction", "cannot follow a session: it would wait for other transactions")
}

// Deleted returns the error with which a follower ends whose session is gone. began: the
// session existed when it began.
func Deleted(sessionID repo.ID, began bool) error {
	return &repo.NotFoundError{Kind: "session", ID: sessionID, Gone: began}
}
