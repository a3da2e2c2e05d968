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
	// stream is the ID of a stream. Zero: the newest one, or a session.
	stream   repo.ID
	sequence int64
	// resumed: the client has got events before.
	resumed bool
	// ended: it has got the last one.
	ended bool
}

// sessionEventID and streamEventID return the ids of events. Since a key of a stream can have
// another stream later, that of a part says which one it is of.
func sessionEventID(m repo.Message) string { return strconv.FormatInt(m.Sequence, 10) }

func streamEventID(p repo.StreamPart) string {
	return p.StreamID.String() + "." + strconv.FormatInt(p.Sequence, 10)
}

// positionOf reads where a request wants to begin: after the event that the header
// names, or else where the query says.
func positionOf(r *http.Request, target Target) (position, error) {
	if last := r.Header.Values(lastEventID); len(last) > 0 && (len(last) > 1 || last[0] != "") {
		if len(last) == 1 && last[0] == ended {
			return position{resumed: true, ended: true}, nil
		}
		at, ok := parsePosition(last, target)
		if !ok || at.sequence == math.MaxInt64 || (target.Stream != "") == at.stream.IsZero() {
			return position{}, badRequest(lastEventID, "is not the id of an event")
		}
		at.sequence++
		at.resumed = true
		return at, nil
	}
	from, given := r.URL.Query()["from"]
	if !given {
		return position{}, nil
	}
	at, ok := parsePosition(from, target)
	if !ok {
		return position{}, badRequest("from", "is not a sequence")
	}
	return at, nil
}

// parsePosition parses a sequence as it is written in ids, and nothing else. That of a stream
// may have the ID of the stream before it.
func parsePosition(values []string, target Target) (at position, ok bool) {
	if len(values) != 1 {
		return position{}, false
	}
	text := values[0]
	if id, sequence, found := strings.Cut(text, "."); found && target.Stream != "" {
		stream, err := repo.ParseID(id)
		if err != nil || stream.IsZero() {
			return position{}, false
		}
		at.stream, text = stream, sequence
	}
	var err error
	at.sequence, err = strconv.ParseInt(text, 10, 64)
	return at, err == nil && at.sequence >= 0 && strconv.FormatInt(at.sequence, 10) == text
}
