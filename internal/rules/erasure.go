package rules

import "github.com/seed-df90f812/agentstore/repo"

// HeldMessages is the error of an erasure of a session whose messages a hold keeps: its own hold, or a hold of a
// fork which has them.
func HeldMessages(id repo.ID) error {
	return &repo.RefusedError{Kind: "hold", ID: id, Reason: "has messages that a legal hold keeps"}
}
