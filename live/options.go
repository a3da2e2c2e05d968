package live

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Target is what a request may read.
type Target struct {
	// Session is the session's id, whose messages and streams are read, all of them. Sessions.Find
	// returns the id of a session with a key, and may return a deleted session's.
	Session repo.ID
	// Reader identifies the reader, such as the id of a user, for
	// Options.MaxPerReader. Empty: that limit does not apply.
	Reader string
}

// Options configure a handler. Only Authorize has to be set. Durations are from 1 ms to 24 h,
// numbers at least 1; zero is the default.
type Options struct {
	// Authorize decides what a request may read, for example by its cookie and its path. It is
	// asked for each request, so also whenever a client connects again. If its error is a
	// StatusError, that is the answer. Other errors are answered with 404 if they match
	// repo.ErrNotFound, 410 if they match repo.ErrGone, 503 if they match
	// repo.ErrUnavailable, ErrClosed or ErrContention, and 403 otherwise. No answer has the text
	// of an error, but for StatusError.Public.
	Authorize func(*http.Request) (Target, error)
	// Message makes the event of a message, for example in the form that a page needs,
	// or without what its reader must not see. The context is the request's. The zero
	// Event leaves the message out. If it returns an error, whichever, the response ends, the
	// error is logged, and the client will ask for the same message again. Nil: MessageEvent,
	// which sends messages of all roles, system prompts too.
	Message func(context.Context, repo.Message) (Event, error)
	// Part is the same for the parts of streams, except for parts with Restart. Nil: PartEvent.
	Part func(context.Context, repo.StreamPart) (Event, error)
	// Origins are the origins, such as "https://app.example.com", whose pages may read
	// although they are of another origin than the handler. Browsers send them the cookies of
	// the handler's, too. Requests of all other pages are refused.
	Origins []string

	// Heartbeat is the time without an event after which a comment is sent, so that
	// proxies do not end the response, and readers that are gone are noticed. Zero: 15 s.
	Heartbeat time.Duration
	// Retry is how long a client that was cut off is told to wait. Each one is told a time
	// between Retry and twice that, so that not all of them return at once. Zero: 1 s.
	Retry time.Duration
	// WriteTimeout bounds how long a reader may take to accept an event. Then
	// the response ends, and the reader can go on with another. Zero: 30 s.
	WriteTimeout time.Duration
	// MaxDuration bounds a response. A client connects again after it, so that
	// Authorize is asked again. Zero: an hour.
	MaxDuration time.Duration

	// MaxResponses bounds the responses under way; further requests get status 503.
	// Zero: 10,000.
	MaxResponses int
	// MaxPerReader bounds the responses with the same Target.Reader; further
	// requests get status 429. Zero: 100.
	MaxPerReader int
	// MaxEventBytes bounds the data of an event, and with it the memory of a response: what
	// MessageEvent and PartEvent would make larger they do not make. An event with more is
	// replaced by one with the name OmittedEvent. Zero: 1 MiB.
	MaxEventBytes int

	// Logger logs why responses ended that should have gone on, but never the content
	// of a message. Nil: nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns the options with their defaults, or which of them is invalid.
func (o Options) withDefaults() (Options, error) {
	if o.Authorize == nil {
		return o, invalid("Authorize", "is nil: pass a function that admits readers")
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.Retry = cmp.Or(o.Retry, time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.MaxDuration = cmp.Or(o.MaxDuration, time.Hour)
	o.MaxResponses = cmp.Or(o.MaxResponses, 10_000)
	o.MaxPerReader = cmp.Or(o.MaxPerReader, 100)
	o.MaxEventBytes = cmp.Or(o.MaxEventBytes, 1<<20)
	if o.Message == nil {
		o.Message = MessageEvent
	}
	if o.Part == nil {
		o.Part = PartEvent
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Heartbeat", o.Heartbeat}, {"Retry", o.Retry}, {"WriteTimeout", o.WriteTimeout}, {"MaxDuration", o.MaxDuration}} {
		if d.value < time.Millisecond || d.value > maxDuration {
			return o, invalid(d.field, fmt.Sprintf("is not between %v and %v", time.Millisecond, maxDuration))
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"MaxResponses", o.MaxResponses}, {"MaxPerReader", o.MaxPerReader}, {"MaxEventBytes", o.MaxEventBytes}} {
		if n.value < 1 {
			return o, invalid(n.field, "is negative")
		}
	}
	origins := make([]string, len(o.Origins)) // not the caller's memory
	for i, origin := range o.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return o, invalid(fmt.Sprintf("Origins[%d]", i), "is not a scheme and a host, as https://example.com is")
		}
		origins[i] = strings.ToLower(origin)
	}
	o.Origins = origins
	return o, nil
}

const maxDuration = 24 * time.Hour

func invalid(field, reason string) error {
	return &repo.InvalidError{Field: "options." + field, Reason: reason}
}
