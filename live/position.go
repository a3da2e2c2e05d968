package live

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	lastEventID = "Last-Event-ID"
	// ended is the id of the last event of what has ended. Who comes back with it is told
	// not to come again.
	ended = "end"
)

// position is where a response begins.
type position struct {
	// id is that of a session or a stream. Zero: the one that the request leads to.
	id       repo.ID
	sequence int64
	// resumed: the client has got events before.
	resumed bool
	// ended: it has got the last one.
	ended bool
}

// eventID returns the id of an event. Since a key can lead to another session, or another
// stream, later, it says which one the event is of.
func eventID(id repo.ID, sequence int64) string {
	return id.String() + "." + strconv.FormatInt(sequence, 10)
}

// lastID returns the id that a client has got before the event with this sequence: that of an
// event, or, if there is none, of what it reads.
func lastID(id repo.ID, next int64) string {
	if next == 0 {
		return id.String()
	}
	return eventID(id, next-1)
}

// positionOf reads where a request wants to begin: after the event that the header
// names, or else where the query says.
func positionOf(r *http.Request) (position, error) {
	if last := r.Header.Values(lastEventID); len(last) > 0 && (len(last) > 1 || last[0] != "") {
		if len(last) == 1 && last[0] == ended {
			return position{resumed: true, ended: true}, nil
		}
		at, hasSequence, ok := parsePosition(last)
		if !ok || at.id.IsZero() || at.sequence == math.MaxInt64 {
			return position{}, badRequest(lastEventID, "is not the id of an event")
		}
		if hasSequence {
			at.sequence++
		}
		at.resumed = true
		return at, nil
	}
	from, given := r.URL.Query()["from"]
	if !given {
		return position{}, nil
	}
	at, _, ok := parsePosition(from)
	if !ok {
		return position{}, badRequest("from", "is not a sequence")
	}
	return at, nil
}

// parsePosition parses an id, a sequence, or both with a period between them, as they are
// written in the ids of events, and nothing else.
func parsePosition(values []string) (at position, hasSequence, ok bool) {
	if len(values) != 1 {
		return position{}, false, false
	}
	id, sequence, both := strings.Cut(values[0], ".")
	if parsed, err := repo.ParseID(id); err == nil && !parsed.IsZero() {
		if at.id = parsed; !both {
			return at, false, true
		}
	} else if both {
		return position{}, false, false
	} else {
		sequence = id
	}
	var err error
	at.sequence, err = strconv.ParseInt(sequence, 10, 64)
	return at, true, err == nil && at.sequence >= 0 && strconv.FormatInt(at.sequence, 10) == sequence
}
