package a2astore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/seed-df90f812/agentstore/repo"
)

// place is where a task is in a list: the one that was updated last comes first.
type place struct {
	Updated time.Time
	ID      a2a.TaskID
}

func comparePlaces(a, b place) int {
	return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(b.ID, a.ID))
}

// List lists the user's own tasks. The protocol's total makes it read a line about each of them.
func (t tasks) List(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	size, last := cmp.Or(req.PageSize, 50), place{}
	if size < 1 || size > 100 {
		return nil, fmt.Errorf("page size must be between 1 and 100 inclusive, got %d: %w", size, a2a.ErrInvalidRequest)
	}
	token, err := base64.RawURLEncoding.DecodeString(req.PageToken)
	if err != nil || len(token) > 0 && json.Unmarshal(token, &last) != nil {
		return nil, fmt.Errorf("page token: %w", a2a.ErrParseError)
	}
	places, err := t.places(ctx, req)
	if err != nil {
		return nil, err
	}
	response := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, TotalSize: len(places), PageSize: size}
	places = slices.DeleteFunc(places, func(p place) bool { return len(token) > 0 && comparePlaces(p, last) <= 0 })
	if len(places) > size {
		places = places[:size]
		token, err = json.Marshal(places[size-1])
		response.NextPageToken = base64.RawURLEncoding.EncodeToString(token)
	}
	for i := 0; i < len(places) && err == nil; i++ { // one by one: tasks may be large
		stored, missing := t.Get(ctx, places[i].ID)
		if errors.Is(missing, a2a.ErrTaskNotFound) {
			continue // deleted meanwhile
		} else if err = missing; err == nil {
			response.Tasks = append(response.Tasks, shorten(stored.Task, req))
		}
	}
	return response, err
}

// places returns the places of the tasks that a request selects, in the order of the list.
func (t tasks) places(ctx context.Context, req *a2a.ListTasksRequest) (places []place, err error) {
	filter := repo.SessionFilter{Namespace: t.options.Name}
	if filter.Owner, err = t.options.Authenticator(ctx); err != nil || filter.Owner == "" {
		return nil, a2a.ErrUnauthenticated
	}
	for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
		listed, err := t.store.Sessions().List(ctx, filter, page)
		if err != nil {
			return nil, err
		}
		read := repo.ReadSessions{Last: 1, WithoutPayload: true, WithoutContent: true}
		for _, session := range listed.Sessions {
			read.IDs = append(read.IDs, session.ID)
		}
		snapshot, err := t.store.Sessions().Read(ctx, read)
		if err != nil {
			return nil, err
		}
		for _, session := range snapshot.Sessions {
			if session != nil && len(session.Messages) > 0 && selected(session.Messages[0].Metadata, req) {
				places = append(places, place{session.Session.UpdatedAt, a2a.TaskID(session.Session.Key)})
			}
		}
		if page.After = listed.Next; page.After == "" {
			slices.SortFunc(places, comparePlaces)
			return places, nil
		}
	}
}

// selected reports whether a request selects the task whose last update has this metadata.
func selected(metadata []byte, req *a2a.ListTasksRequest) bool {
	var s summary
	return json.Unmarshal(metadata, &s) == nil && string(metadata) != "{}" && // an answer without a task
		(req.ContextID == "" || req.ContextID == s.ContextID) &&
		(req.Status == a2a.TaskStateUnspecified || req.Status == s.State) &&
		(req.StatusTimestampAfter == nil || s.Timestamp == nil || !s.Timestamp.Before(*req.StatusTimestampAfter))
}

// shorten leaves out of a task what a request does not ask for.
func shorten(task *a2a.Task, req *a2a.ListTasksRequest) *a2a.Task {
	history := 100
	if req.HistoryLength != nil {
		history = *req.HistoryLength
	}
	if history >= 0 && history < len(task.History) {
		task.History = task.History[len(task.History)-history:]
	}
	if !req.IncludeArtifacts {
		task.Artifacts = nil
	}
	return task
}
