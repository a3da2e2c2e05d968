package a2astore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/seed-df90f812/agentstore/repo"
)

// tasks keeps each task in a session of its own: a message for each update, and in the session's
// state the task itself. A task's version is the number of messages, so that a message has the
// version that its update made: its sequence plus one.
type tasks struct{ *Cluster }

const taskKey = "task" // in the session's state

// summary is what List needs of an update, in the message's metadata.
type summary struct {
	ContextID string        `json:"contextId"`
	State     a2a.TaskState `json:"state"`
	Timestamp *time.Time    `json:"timestamp,omitempty"`
}

func (t tasks) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	session := t.session(ctx, task.ID)
	return t.put(ctx, task, task, repo.Turn{Create: &session})
}

func (t tasks) Update(ctx context.Context, req *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	turn, expected := repo.Turn{}, int64(req.PrevVersion)
	if req.PrevVersion != taskstore.TaskVersionMissing {
		turn.Expected = &expected
	} else if _, err := t.Get(ctx, req.Task.ID); err != nil { // the session may be there without it
		return taskstore.TaskVersionMissing, err
	}
	return t.put(ctx, req.Task, told(req.Task, req.Event), turn)
}

// put stores a task and the event for readers in one turn.
func (t tasks) put(ctx context.Context, task *a2a.Task, event a2a.Event, turn repo.Turn) (taskstore.TaskVersion, error) {
	message, invalidEvent := newMessage(event)
	metadata, invalid := encode("task", summary{task.ContextID, task.Status.State, task.Status.Timestamp})
	value, invalidTask := encode("task", task)
	if err := errors.Join(invalidEvent, invalid, invalidTask); err != nil {
		return taskstore.TaskVersionMissing, err
	} else if task.ID == "" {
		return taskstore.TaskVersionMissing, fmt.Errorf("task has no id: %w", a2a.ErrInvalidParams)
	}
	message.Metadata = metadata
	change := repo.StateChange{Key: taskKey, Value: value}
	if turn.Create != nil {
		change.IfVersion = new(int64) // the task must not exist
	}
	turn.ID, turn.Messages, turn.State = repo.NewID(), []repo.NewMessage{message}, []repo.StateChange{change}
	added, err := repo.ByKey(t.store.Sessions(), t.key(task.ID)).AppendTurn(ctx, turn)
	if errors.Is(err, repo.ErrUnknownOutcome) && ctx.Err() == nil { // it has an id, and so is stored once
		added, err = repo.ByKey(t.store.Sessions(), t.key(task.ID)).AppendTurn(ctx, turn)
	}
	switch {
	case errors.Is(err, repo.ErrNotFound):
		return taskstore.TaskVersionMissing, fmt.Errorf("%w: %w", a2a.ErrTaskNotFound, err)
	case errors.Is(err, repo.ErrConflict) && turn.Create != nil:
		return taskstore.TaskVersionMissing, fmt.Errorf("%w: %w", taskstore.ErrTaskAlreadyExists, err)
	case errors.Is(err, repo.ErrConflict):
		return taskstore.TaskVersionMissing, fmt.Errorf("%w: %w", taskstore.ErrConcurrentModification, err)
	case err != nil:
		return taskstore.TaskVersionMissing, err
	}
	return taskstore.TaskVersion(added.Messages[0].Sequence + 1), nil
}

// newMessage returns the message with an event for readers. Nil: without a payload, and for none.
func newMessage(event a2a.Event) (message repo.NewMessage, err error) {
	message.ID, message.Role = repo.NewID(), repo.RoleAssistant
	if event != nil {
		message.Payload, err = encode("event", a2a.StreamResponse{Event: event})
	}
	return message, err
}

// encode returns JSON that can be read again. The framework writes parts without contents, such as
// null as data, which it does not read: a stored one would make the whole task unreadable.
func encode[T any](field string, value T) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, new(T)) != nil {
		return nil, &repo.InvalidError{Field: field, Reason: "cannot be written as JSON and read again"}
	}
	return text, nil
}

func (t tasks) Get(ctx context.Context, id a2a.TaskID) (*taskstore.StoredTask, error) {
	snapshot, err := t.store.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{t.key(id).ID()}, State: true})
	if err != nil {
		return nil, err
	}
	session := snapshot.Sessions[0]
	if session == nil || session.State.Value(taskKey) == nil {
		return nil, a2a.ErrTaskNotFound
	}
	stored := &taskstore.StoredTask{Version: taskstore.TaskVersion(session.Session.MessageCount)}
	return stored, json.Unmarshal(session.State.Value(taskKey), &stored.Task)
}

// List lists the user's own tasks: the one that was updated last comes first. The protocol's total
// makes it read a line about each of them.
func (t tasks) List(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	response := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, PageSize: cmp.Or(req.PageSize, 50)}
	if size := response.PageSize; size < 1 || size > 100 {
		return nil, fmt.Errorf("page size must be between 1 and 100 inclusive, got %d: %w", size, a2a.ErrInvalidRequest)
	} else if req.PageToken != "" && !strings.Contains(req.PageToken, "/") {
		return nil, fmt.Errorf("page token: %w", a2a.ErrParseError)
	}
	places, err := t.places(ctx, req)
	if err != nil {
		return nil, err
	}
	response.TotalSize = len(places)
	last := "" // place on the page
	for _, place := range places {
		if req.PageToken != "" && place >= req.PageToken { // on a page before
			continue
		} else if len(response.Tasks) == response.PageSize {
			response.NextPageToken = last
			break
		}
		last = place
		_, id, _ := strings.Cut(place, "/")
		stored, err := t.Get(ctx, a2a.TaskID(id)) // one by one: tasks may be large
		if errors.Is(err, a2a.ErrTaskNotFound) {  // deleted meanwhile
			continue
		} else if err != nil {
			return nil, err
		}
		response.Tasks = append(response.Tasks, shorten(stored.Task, req))
	}
	return response, nil
}

// places returns where the tasks are that a request selects, in the order of the list: texts of the
// time of the last update and the id.
func (t tasks) places(ctx context.Context, req *a2a.ListTasksRequest) (places []string, err error) {
	filter := repo.SessionFilter{Namespace: t.options.Name}
	if filter.Owner, err = t.options.Authenticator(ctx); err != nil || filter.Owner == "" {
		return nil, a2a.ErrUnauthenticated
	}
	read := repo.ReadSessions{Last: 1, WithoutPayload: true, WithoutContent: true}
	for found, err := range repo.EachSession(ctx, t.store.Sessions(), filter, read) {
		if err != nil {
			return nil, err
		} else if len(found.Messages) > 0 && selected(found.Messages[0].Metadata, req) {
			places = append(places, fmt.Sprintf("%020d/%s", found.Session.UpdatedAt.UnixMicro(), found.Session.Key))
		}
	}
	slices.SortFunc(places, func(a, b string) int { return cmp.Compare(b, a) })
	return places, nil
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
