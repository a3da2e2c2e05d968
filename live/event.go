package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// Names of events that the handler sends by itself. Their data are JSON objects.
const (
	// BeginEvent is the name of the first event of a response. messages is how many messages there
	// are: a client that has so many is up to date. head is the sequence of the transcript's last one, or -1,
	// unless that is the last of all.
	BeginEvent = "begin"
	// StreamEvent is the name of an event that says what has become of a stream of the session:
	// stream is its ID, key its key, and state is "open" (its parts follow), "restarted" (a new
	// attempt begins: the parts so far are void), "finished", "failed" (error is what its writer
	// said), or "gone" (it has expired or was deleted; parts may be missing, and so may its key).
	StreamEvent = "stream"
	// EndEvent is the name of the last event, after which nothing more comes. reason is "deleted",
	// or "gone" if the client has events of another session than the request now leads to, such as
	// one that was deleted and made again under its key. A client that connects again after it gets
	// status 204, which stops an EventSource.
	EndEvent = "end"
	// OmittedEvent is the name of an event that stands for one with too much data: sequence, bytes
	// (how many bytes of data there are at least), and stream if it is a part of one.
	OmittedEvent = "omitted"
)

// encoded returns an event of the handler's.
func encoded(name string, data any) Event {
	text, _ := json.Marshal(data) //nolint:errchkjson // strings and numbers
	return Event{Name: name, Data: text}
}

// Event is what a client gets of a message or a part, besides the id.
type Event struct {
	// Name is the event's type, which a page listens to. It has no line break. Empty:
	// "message", which onmessage gets.
	Name string
	// Data is UTF-8, usually JSON. A client gets each line break of it as a line feed. An event
	// without data is not dispatched by clients.
	Data []byte
}

// limitKey is the key of the largest size of an event's data, in the contexts of a handler.
type limitKey struct{}

// isTooLarge reports whether data of this size would be replaced. Without a handler none is.
func isTooLarge(ctx context.Context, size int) bool {
	limit, limited := ctx.Value(limitKey{}).(int)
	return limited && size > limit
}

// messageHead is the data of a message but for what may be large. Its members are named as in
// an export.
type messageHead struct {
	Sequence   int64     `json:"sequence"`
	Follows    *int64    `json:"follows,omitempty"`
	ID         repo.ID   `json:"id"`
	Role       repo.Role `json:"role"`
	Kind       string    `json:"kind,omitempty"`
	CallID     string    `json:"call_id,omitempty"`
	OccurredAt time.Time `json:"occurred_at,omitzero"`
	CreatedAt  time.Time `json:"created_at"`
}

// The members that follow a head.
const (
	contentMember  = `,"content":`
	metadataMember = `,"metadata":`
	textMember     = `,"text":`
	base64Member   = `,"base64":`
)

// MessageEvent returns the event of a message that a handler sends by default: a JSON object
// with sequence, id, role, created_at, content and metadata, with kind, call_id and
// occurred_at if the message has them, and with follows (a sequence, or -1) unless it
// follows the message before it. It leaves out the payload. With the context of
// Options.Message, an event that would be larger than MaxEventBytes is not made at all: it
// returns the OmittedEvent at once.
func MessageEvent(ctx context.Context, m repo.Message) (Event, error) {
	members := messageHead{
		Sequence: m.Sequence, ID: m.ID, Role: m.Role, Kind: m.Kind, CallID: m.CallID, OccurredAt: m.OccurredAt,
		CreatedAt: m.CreatedAt,
	}
	if m.Follows != m.Sequence-1 {
		members.Follows = &m.Follows
	}
	head, err := json.Marshal(members)
	if err != nil {
		return Event{}, err
	}
	metadata := m.Metadata
	if metadata == nil {
		metadata = json.RawMessage("{}")
	}
	if size := len(m.Content) + len(metadata); isTooLarge(ctx, size) { // whatever is escaped
		return omitted(repo.ID{}, m.Sequence, size), nil
	}
	size := len(head) + len(contentMember) + jsonvalue.LenString(m.Content) + len(metadataMember) + len(metadata)
	if isTooLarge(ctx, size) {
		return omitted(repo.ID{}, m.Sequence, size), nil
	}
	data := append(make([]byte, 0, size), head[:len(head)-1]...)
	data = jsonvalue.AppendString(append(data, contentMember...), m.Content)
	data = append(append(data, metadataMember...), metadata...)
	return Event{Data: append(data, '}')}, nil
}

// PartEvent returns the event of a part of a stream that a handler sends by default, with the name
// "part": a JSON object with stream (its ID), sequence, and text if the part is UTF-8, or else base64.
// As with MessageEvent, a larger one is the OmittedEvent.
func PartEvent(ctx context.Context, p repo.StreamPart) (Event, error) {
	if isTooLarge(ctx, len(p.Data)) {
		return omitted(p.StreamID, p.Sequence, len(p.Data)), nil
	}
	head := `{"stream":"` + p.StreamID.String() + `","sequence":` + strconv.FormatInt(p.Sequence, 10)
	isText := utf8.Valid(p.Data)
	size := len(head) + len(base64Member) + len(`""}`) + base64.StdEncoding.EncodedLen(len(p.Data))
	if isText {
		size = len(head) + len(textMember) + jsonvalue.LenString(p.Data) + len(`}`)
	}
	if isTooLarge(ctx, size) {
		return omitted(p.StreamID, p.Sequence, size), nil
	}
	data := append(make([]byte, 0, size), head...)
	if isText {
		data = jsonvalue.AppendString(append(data, textMember...), string(p.Data))
	} else {
		data = append(base64.StdEncoding.AppendEncode(append(append(data, base64Member...), '"'), p.Data), '"')
	}
	return Event{Name: "part", Data: append(data, '}')}, nil
}

// omitted stands for an event that has too much data.
func omitted(stream repo.ID, sequence int64, size int) Event {
	return encoded(OmittedEvent, struct {
		Stream   repo.ID `json:"stream,omitzero"`
		Sequence int64   `json:"sequence"`
		Bytes    int     `json:"bytes"`
	}{stream, sequence, size})
}

// endOf returns the event that says why nothing more comes, if err does.
func endOf(err error) (event Event, isEnd bool) {
	missing, isMissing := errors.AsType[*repo.NotFoundError](err)
	reason := "gone"
	switch {
	case isMissing && missing.Kind == "session":
		reason = "deleted"
	case !errors.Is(err, errReplaced):
		return Event{}, false
	}
	return encoded(EndEvent, map[string]string{"reason": reason}), true
}

var errName = errors.New("live: the name of an event has a line break or a NUL")

// checkEvent checks an event of the caller's making.
func checkEvent(event Event) error {
	if strings.ContainsAny(event.Name, "\r\n\x00") {
		return errName
	}
	return nil
}

// writeEvent writes an event. The id is of the handler's making. An event that is left out has its
// id alone: a client notes that, and dispatches nothing.
func writeEvent(w *bufio.Writer, id string, event Event) error {
	writeField(w, "id: ", id)
	if event.Name != "" {
		writeField(w, "event: ", event.Name)
	}
	for rest, more := event.Data, len(event.Data) > 0; more; {
		var line []byte
		line, rest, more = cutLine(rest)
		writeField(w, "data: ", line)
	}
	return w.WriteByte('\n')
}

// writeField leaves an error to the next write: it stays in w.
func writeField[T string | []byte](w *bufio.Writer, name string, value T) {
	_, _ = w.WriteString(name)
	switch value := any(value).(type) {
	case string:
		_, _ = w.WriteString(value)
	case []byte:
		_, _ = w.Write(value) // one that is large is not copied
	}
	_ = w.WriteByte('\n')
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
