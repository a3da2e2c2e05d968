package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// message is a message as it is shown, with the results of the call that it makes.
type message struct {
	Sequence  int64      `json:"sequence"`
	ID        string     `json:"id"`
	Role      repo.Role  `json:"role"`
	Kind      string     `json:"kind,omitempty"`
	CallID    string     `json:"call_id,omitempty"`
	Follows   *int64     `json:"follows,omitempty"` // of a message that begins a branch
	Tokens    int64      `json:"tokens,omitempty"`
	Counter   string     `json:"counter,omitempty"`
	CreatedAt string     `json:"created_at"`
	Content   string     `json:"content,omitempty"`
	Metadata  string     `json:"metadata,omitempty"`
	Payload   string     `json:"payload,omitempty"`
	Hidden    bool       `json:"hidden,omitempty"` // the viewer may not read contents
	Cut       bool       `json:"cut,omitempty"`    // there is more than is shown
	Results   []*message `json:"results,omitempty"`

	Link, Time string `json:"-"`
	Summary    bool   `json:"-"`
	redacts    bool   // others
}

// Folded reports whether the content is folded, and Head is what is shown of it then.
func (m *message) Folded() bool { return len(m.Content) > folded }
func (m *message) Head() string { return clip(m.Content, 160) }

// Result reports whether it is the result of a call.
func (m *message) Result() bool { return m.Role == repo.RoleTool && m.CallID != "" }

func (l *look) newMessage(m repo.Message, shown bool, limit int) *message {
	v := &message{
		Sequence: m.Sequence, ID: m.ID.String(), Role: m.Role, Kind: m.Kind, CallID: m.CallID, Tokens: m.Tokens,
		Counter: m.Counter, Hidden: !shown,
		CreatedAt: m.CreatedAt.UTC().Format(time.RFC3339Nano), Time: m.CreatedAt.UTC().Format("2006-01-02 15:04:05"),
		Summary: m.Kind == repo.KindSummary, redacts: m.Kind == repo.KindRedacted && m.Content == "",
		Link: l.url("/sessions/" + m.SessionID.String() + "/messages/" + strconv.FormatInt(m.Sequence, 10)),
	}
	if m.Follows != m.Sequence-1 {
		v.Follows = &m.Follows
	}
	if !shown {
		return v
	}
	part := func(s string) string {
		s = l.options.Redact(s)
		v.Cut = v.Cut || len(s) > limit
		return clip(s, limit)
	}
	v.Content = part(m.Content)
	if string(m.Metadata) != "{}" {
		v.Metadata = part(string(m.Metadata))
	}
	if utf8.Valid(m.Payload) {
		v.Payload = part(string(m.Payload))
	} else {
		v.Payload = fmt.Sprintf("%s bytes that are no text", grouped(int64(len(m.Payload))))
	}
	return v
}

// fold puts the results of calls into the messages that make the calls, if they are on the same page.
func (l *look) fold(messages []repo.Message, shown bool) []*message {
	calls, all := map[string]*message{}, []*message{}
	for _, m := range messages {
		v := l.newMessage(m, shown, maxShown)
		if call := calls[v.CallID]; v.Result() && call != nil {
			call.Results = append(call.Results, v)
			continue
		}
		if all = append(all, v); v.CallID != "" {
			calls[v.CallID] = v
		}
	}
	return all
}

// message shows one message, up to a larger size.
func (l *look) message() *page {
	id, sequence := l.id(), l.sequence("sequence")
	found := l.one(repo.ReadSessions{
		IDs: []repo.ID{id}, First: 1, From: sequence, Branches: true, WithoutContent: !l.access.Contents,
		WithoutPayload: !l.access.Contents,
	})
	if len(found.Messages) == 0 || found.Messages[0].Sequence != sequence {
		check(&repo.NotFoundError{Kind: "message"})
	}
	shown := l.contents(found.Session.Namespace, id, repo.ID{})
	s := section{
		Key: "messages", Title: "Message " + grouped(sequence),
		Messages: []*message{l.newMessage(found.Messages[0], shown, 16*maxShown)},
	}
	return &page{Title: title(found.Session), Current: "Sessions", Above: l.tabs(id), Sections: []section{s}}
}

// mayFollow answers for a feed: the viewer must see the session.
func (i *Inspector) mayFollow(r *http.Request) (target live.Target, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), i.options.Timeout)
	defer cancel()
	l, _ := ctx.Value(lookKey{}).(*look)
	l.r, l.ctx = r, ctx
	_, err = l.attempt(func(l *look) *page {
		// see Options.Live: no namespace has NUL
		target = live.Target{Session: l.id(), Reader: cmp.Or(l.access.Namespace, "\x00"+l.access.Viewer)}
		l.contents(ok(l.store.Sessions().Get(ctx, target.Session)).Namespace, target.Session, repo.ID{})
		return nil
	})
	return target, err
}

// messageEvent sends a message as it would be in the page, or less of it, if it is too large for an event when it is
// escaped.
func (i *Inspector) messageEvent(ctx context.Context, m repo.Message) (event live.Event, err error) {
	l, _ := ctx.Value(lookKey{}).(*look)
	for limit := maxShown; ; limit /= 8 {
		v := l.newMessage(m, l.access.Contents, limit)
		var out bytes.Buffer
		if err := i.template.ExecuteTemplate(&out, "message", v); err != nil {
			return live.Event{}, err
		}
		event.Data, err = json.Marshal(struct {
			Sequence int64  `json:"sequence"`
			Follows  *int64 `json:"follows,omitempty"`
			CallID   string `json:"call_id,omitempty"` // of a result
			HTML     string `json:"html"`
			Redacts  bool   `json:"redacts,omitempty"`
		}{v.Sequence, v.Follows, map[bool]string{true: visible(v.CallID)}[v.Result()], out.String(), v.redacts})
		if err != nil || len(event.Data) <= maxEvent || limit == 0 {
			return event, err
		}
	}
}

// partEvent tells how far a stream is. Its text is shown by a page of its own, which can redact it as a whole.
func partEvent(_ context.Context, p repo.StreamPart) (live.Event, error) {
	data, err := json.Marshal(map[string]any{"stream": p.StreamID.String(), "parts": p.Sequence + 1})
	return live.Event{Name: "part", Data: data}, err
}
