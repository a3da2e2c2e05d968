package rules

import (
	"cmp"

	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeRead checks what is to be read, and returns it with Since as messages are
// stored.
func NormalizeRead(r repo.ReadSessions) (repo.ReadSessions, error) {
	err := cmp.Or(
		checkEntries("ids", len(r.IDs), repo.MaxPageSize),
		checkEntries("scopes", len(r.Scopes), repo.MaxStateScopes),
		invalidIf(r.First < 0, "first", "is negative"),
		invalidIf(r.Last < 0, "last", "is negative"),
		invalidIf(r.First > 0 && r.Last > 0, "last", "is set together with first"),
		CheckSequence("from", r.From),
		normalizeTime("since", &r.Since),
	)
	if err != nil {
		return r, err
	}
	for i, name := range r.Scopes {
		if err := checkScopeName(at("scopes", i), name); err != nil {
			return r, err
		}
	}
	count, field := r.First, "first"
	if r.Last > 0 {
		count, field = r.Last, "last"
	}
	return r, cmp.Or(
		invalidIf(count == 0 && r.From > 0, "from", "is set, but neither first nor last is"),
		invalidIf(count == 0 && !r.Since.IsZero(), "since", "is set, but neither first nor last is"),
		tooManyMessages(field, count, len(r.IDs)),
	)
}

// tooManyMessages checks the number of messages in field, which are read of each of
// some sessions.
func tooManyMessages(field string, count, sessions int) error {
	if count > repo.MaxReadMessages/max(1, sessions) {
		return invalid(field, "for %d sessions is more than %d messages", sessions, repo.MaxReadMessages)
	}
	return nil
}

// CutRead returns the messages of one session that belong to a snapshot which has size
// bytes of messages already, and how many bytes it has with them. They are all messages
// before the one at which there are repo.MaxReadBytes, and that one; if the last messages
// are to be read, they are counted from the last one on.
func CutRead(read repo.ReadSessions, messages []repo.Message, size int) ([]repo.Message, int) {
	for taken := range messages {
		if size >= repo.MaxReadBytes {
			if read.Last > 0 {
				return messages[len(messages)-taken:], size
			}
			return messages[:taken], size
		}
		m := &messages[taken]
		if read.Last > 0 {
			m = &messages[len(messages)-1-taken]
		}
		size += len(m.Content) + len(m.Metadata) + len(m.Payload)
	}
	return messages, size
}
