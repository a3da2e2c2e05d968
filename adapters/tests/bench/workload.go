package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// workload is a number of writers, each of which appends one event after the other: all of
// them to one session, or each to sessions of its own.
type workload struct {
	name              string
	writers, sessions int
	// shared: each append sets the writer's key of the application's state.
	shared bool
	// goal is how many times the framework's rate the adapter's should be.
	goal float64
}

var workloads = []workload{
	{"1 writer", 1, 1, false, 3},
	{"16 writers, 1 session", 16, 1, false, 15},
	{"64 writers, 1 session", 64, 1, false, 60},
	{"64 writers, 1,000 sessions", 64, 1000, false, 8},
	{"64 writers, 1,000 sessions, a shared key", 64, 1000, true, 8},
}

// textBytes is the length of an event's text.
const textBytes = 200

// result is what a way did in a round. Lost are acknowledged events that are not stored,
// and shared keys that do not have the value that their writer set last.
type result struct {
	appends, refused, lost int
	rate                   float64
	latencies              []time.Duration
}

func (r result) percentile(part float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return r.latencies[min(len(r.latencies)-1, int(part*float64(len(r.latencies))))]
}

func prepare(ctx context.Context, w workload, service session.Service) ([]session.Session, error) {
	var sessions []session.Session
	for i := range w.sessions {
		created, err := service.Create(ctx, &session.CreateRequest{AppName: w.name, UserID: fmt.Sprint("user", i)})
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, created.Session)
	}
	return sessions, nil
}

// drive has the writers append for a time. An append that is refused is tried again on the
// session as it is then, until it is stored or the time is over, and counts once; reading
// the session is part of its latency.
func drive(ctx context.Context, w workload, service session.Service, sessions []session.Session, round int, duration time.Duration) (result, error) {
	begin := time.Now()
	goesOn := func() bool { return time.Since(begin) < duration && ctx.Err() == nil }
	parts, errs := make([]result, w.writers), make([]error, w.writers)
	last := make([]string, w.writers)
	var all sync.WaitGroup
	for writer := range w.writers {
		all.Go(func() {
			mine := []session.Session{sessions[0]}
			if len(sessions) > 1 {
				mine = nil
				for i := writer; i < len(sessions); i += w.writers {
					mine = append(mine, sessions[i])
				}
			}
			parts[writer], last[writer], errs[writer] = write(ctx, w, service, mine, fmt.Sprintf("%d/%d", round, writer), keyOf(writer), goesOn)
		})
	}
	all.Wait()
	var total result
	for i, part := range parts {
		if errs[i] != nil {
			return total, errs[i]
		}
		total.appends += part.appends
		total.refused += part.refused
		total.latencies = append(total.latencies, part.latencies...)
	}
	total.rate = float64(total.appends) / time.Since(begin).Seconds()
	if !w.shared {
		return total, ctx.Err()
	}
	now, err := reread(ctx, service, sessions[0])
	if err != nil {
		return total, err
	}
	for writer, want := range last {
		if got, err := now.State().Get(keyOf(writer)); want != "" && (err != nil || got != want) {
			total.lost++
		}
	}
	return total, nil
}

// keyOf returns the key that a writer changes in the state that all share.
func keyOf(writer int) string { return fmt.Sprintf("app:key%d", writer) }

// write has one writer append to its sessions in turn. It returns the id of the last event that was stored, too.
func write(
	ctx context.Context, w workload, service session.Service, mine []session.Session, name, key string, goesOn func() bool,
) (part result, last string, err error) {
	for i := range mine {
		if mine[i], err = reread(ctx, service, mine[i]); err != nil {
			return part, last, err
		}
	}
	for i := 0; goesOn(); i++ {
		at, id := i%len(mine), fmt.Sprintf("%s/%d", name, i)
		event := &session.Event{
			ID: id, InvocationID: id, Author: "user", Timestamp: time.Now(),
			LLMResponse: model.LLMResponse{Content: genai.NewContentFromText(strings.Repeat("x", textBytes), genai.RoleUser)},
		}
		if w.shared {
			event.Actions.StateDelta = map[string]any{key: id}
		}
		started := time.Now()
		refused := service.AppendEvent(ctx, mine[at], event)
		for refused != nil && goesOn() {
			part.refused++
			if mine[at], err = reread(ctx, service, mine[at]); err != nil {
				return part, last, err
			}
			event.Timestamp = time.Now()
			refused = service.AppendEvent(ctx, mine[at], event)
		}
		if refused != nil {
			part.refused++
			break
		}
		part.appends++
		part.latencies = append(part.latencies, time.Since(started))
		last = id
	}
	return part, last, nil
}

func reread(ctx context.Context, service session.Service, of session.Session) (session.Session, error) {
	got, err := service.Get(ctx, &session.GetRequest{AppName: of.AppName(), UserID: of.UserID(), SessionID: of.ID(), NumRecentEvents: 1})
	if err != nil {
		return nil, err
	}
	return got.Session, nil
}
