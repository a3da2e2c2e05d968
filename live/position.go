package live

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	lastEventID = "Last-Event-ID"
	// ended is the id of the last event of a feed that has ended. A client that comes
	// back with it is told to stay away.
	ended = "end"
	// maxStreams bounds the streams that a response reads at a time, and so the length of an id.
	maxStreams = 16
)

// position is how far a client has got in the feed of a session. The id of each event has it: the
// session's ID and, after a period, the sequence of the last message; then, after a tilde each, the
// same of the streams that are being read. Of what the client has nothing yet, it has the ID alone.
type position struct {
	// session is zero if the client has got nothing yet.
	session repo.ID
	// next is the sequence of the next message.
	next    int64
	streams []repo.StreamPosition
	// ended: the client has got the last event.
	ended bool
}

func (p *position) String() string {
	id := appendPlace(make([]byte, 0, 64), p.session, p.next)
	for _, s := range p.streams {
		id = appendPlace(append(id, '~'), s.StreamID, s.Sequence)
	}
	return string(id)
}

func appendPlace(id []byte, of repo.ID, next int64) []byte {
	if id = append(id, of.String()...); next > 0 {
		id = strconv.AppendInt(append(id, '.'), next-1, 10)
	}
	return id
}

// stream returns the place in a stream that is being read, or nil.
func (p *position) stream(id repo.ID) *repo.StreamPosition {
	if at := slices.IndexFunc(p.streams, func(s repo.StreamPosition) bool { return s.StreamID == id }); at >= 0 {
		return &p.streams[at]
	}
	return nil
}

// positionOf reads which event the client has got last: the header says so, or else the query.
func positionOf(r *http.Request) (position, error) {
	field, values := lastEventID, r.Header.Values(lastEventID)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		field, values = "after", r.URL.Query()["after"]
	}
	switch {
	case len(values) == 0:
		return position{}, nil
	case len(values) == 1 && values[0] == ended:
		return position{ended: true}, nil
	}
	p, ok := parsePosition(values[0])
	if !ok || len(values) > 1 {
		return position{}, badRequest(field, "is not the id of an event")
	}
	return p, nil
}

// parsePosition parses what String writes, and nothing else.
func parsePosition(text string) (p position, ok bool) {
	first, rest, more := strings.Cut(text, "~")
	if p.session, p.next, ok = parsePlace(first); !ok {
		return p, false
	}
	for more {
		var s repo.StreamPosition
		first, rest, more = strings.Cut(rest, "~")
		if s.StreamID, s.Sequence, ok = parsePlace(first); !ok || len(p.streams) == maxStreams ||
			p.stream(s.StreamID) != nil {
			return p, false
		}
		p.streams = append(p.streams, s)
	}
	return p, true
}

func parsePlace(text string) (of repo.ID, next int64, ok bool) {
	id, sequence, some := strings.Cut(text, ".")
	of, err := repo.ParseID(id)
	if err != nil || of.IsZero() || !some {
		return of, 0, err == nil && !of.IsZero()
	}
	last, err := strconv.ParseInt(sequence, 10, 64)
	ok = err == nil && last >= 0 && last < math.MaxInt64-1 && strconv.FormatInt(last, 10) == sequence
	return of, last + 1, ok
}
