package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/repo"
)

// Names of events that the handler sends by itself.
const (
	// EndEvent is the name of the last event of what has ended. Its data is a JSON object;
	// reason says why: for a session "deleted", or "gone" if the client has events of another one
	// than the request now leads to, such as one that was deleted and made again under its key;
	// for a stream "finished", "failed" (then error is what its writer said), or "gone" if it has
	// expired and parts may be missing. A client that connects again after it gets status 204,
	// which stops an EventSource.
	EndEvent = "end"
	// OmittedEvent is the name of an event that stands for one with too much data. Its data
	// is a JSON object: sequence, and bytes, the number of bytes of the data.
	OmittedEvent = "omitted"
)

// Event is what a client gets of a message or a part, besides the id.
type Event struct {
	// Name is the event's type, which a page listens to. It has no line break. Empty:
	// "message", which onmessage gets.
	Name string
	// Data is UTF-8, usually JSON. A client gets each line break of it as a line feed. An event
	// without data is not dispatched by clients.
	Data []byte
}

// messageData is the data of a message. Its members are those of an export.
type messageData struct {
	Sequence   int64           `json:"sequence"`
	ID         repo.ID         `json:"id"`
	Role       repo.Role       `json:"role"`
	Kind       string          `json:"kind,omitempty"`
	CallID     string          `json:"call_id,omitempty"`
	Content    string          `json:"content"`
	Metadata   json.RawMessage `json:"metadata"`
	OccurredAt time.Time       `json:"occurred_at,omitzero"`
	CreatedAt  time.Time       `json:"created_at"`
}

// MessageEvent returns the event of a message that a handler sends by default: a JSON object
// with sequence, id, role, content, metadata and created_at, and with kind, call_id and
// occurred_at if the message has them. It leaves out the payload.
func MessageEvent(_ context.Context, m repo.Message) (Event, error) {
	data, err := json.Marshal(messageData{
		Sequence: m.Sequence, ID: m.ID, Role: m.Role, Kind: m.Kind, CallID: m.CallID, Content: m.Content,
		Metadata: m.Metadata, OccurredAt: m.OccurredAt, CreatedAt: m.CreatedAt,
	})
	return Event{Data: data}, err
}

// partData is the data of a part of a stream.
type partData struct {
	Sequence int64   `json:"sequence"`
	Text     *string `json:"text,omitempty"`
	Base64   []byte  `json:"base64,omitempty"`
}

// PartEvent returns the event of a part of a stream that a handler sends by default: a JSON
// object with sequence, and with text if the part is UTF-8, or else with base64.
func PartEvent(_ context.Context, p repo.StreamPart) (Event, error) {
	part := partData{Sequence: p.Sequence}
	if utf8.Valid(p.Data) {
		text := string(p.Data)
		part.Text = &text
	} else {
		part.Base64 = p.Data
	}
	data, err := json.Marshal(part)
	return Event{Data: data}, err
}

// omitted stands for an event that has too much data.
func omitted(sequence int64, size int) Event {
	data, _ := json.Marshal(struct { //nolint:errchkjson // numbers
		Sequence int64 `json:"sequence"`
		Bytes    int   `json:"bytes"`
	}{sequence, size})
	return Event{Name: OmittedEvent, Data: data}
}

// endOf returns the event that says why nothing more comes, if err does.
func endOf(err error) (event Event, isEnd bool) {
	var data struct {
		Reason string `json:"reason"`
		Error  string `json:"error,omitempty"`
	}
	failed, isFailed := errors.AsType[*repo.StreamFailedError](err)
	switch {
	case err == nil:
		data.Reason = "finished"
	case isFailed:
		data.Reason, data.Error = "failed", failed.Reason
	case errors.Is(err, repo.ErrStreamGone), errors.Is(err, errReplaced):
		data.Reason = "gone"
	case errors.Is(err, repo.ErrNotFound):
		data.Reason = "deleted"
	default:
		return Event{}, false
	}
	encoded, _ := json.Marshal(data) //nolint:errchkjson // strings
	return Event{Name: EndEvent, Data: encoded}, true
}

var errName = errors.New("live: the name of an event has a line break or a NUL")

// appendEvent appends an event as it is sent. The id is of the handler's making. An event that
// is left out has its id alone: a client notes that, and dispatches nothing.
func appendEvent(b []byte, id string, event Event) ([]byte, error) {
	if strings.ContainsAny(event.Name, "\r\n\x00") {
		return b, errName
	}
	b = append(append(append(b, "id: "...), id...), '\n')
	if event.Name != "" {
		b = append(append(append(b, "event: "...), event.Name...), '\n')
	}
	for rest, more := event.Data, len(event.Data) > 0; more; {
		var line []byte
		line, rest, more = cutLine(rest)
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n'), nil
}

// cutLine cuts b after its first line. more: there was a line break, and so another line,
// which may be empty.
func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	after := i + 1
	if bytes.HasPrefix(b[i:], []byte("\r\n")) {
		after++
	}
	return b[:i], b[after:], true
}
