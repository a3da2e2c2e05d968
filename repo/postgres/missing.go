package postgres

import (
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

var errMissingMessages = errors.New("messages of the session are missing: rows were removed or not stored by " +
	"others, or are hidden from this role")

// missingMessages is the error of a reader that meets a gap. The library never causes
// one: sequences have none.
func missingMessages() error {
	return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: errMissingMessages}
}

func isGap(err error) bool { return errors.Is(err, errMissingMessages) }

// checkLinked reports a gap among ascending messages of a transcript, each of which follows the one before it. The
// first one is the one behind from - 1, unless from is -1.
func checkLinked(messages []repo.Message, from int64) error {
	before, known := from-1, from >= 0
	for i := range messages {
		if messages[i].Follows != before && known {
			return missingMessages()
		}
		before, known = messages[i].Sequence, true
	}
	return nil
}
