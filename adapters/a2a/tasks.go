package a2astore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// tasks keeps each task in a session of its own: a message for each update, and in the session's
// state the task itself. A task's version is the number of messages, so that a message has the
// version that its update made: its sequence plus one.
type tasks struct{ *Cluster }

const taskKey = "task" // in the session's state

func (t tasks) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	found, err := t.sessionOf(ctx, task.ID)
	if errors.Is(err, a2a.ErrTaskNotFound) {
		err = fmt.Errorf("%w: %w", taskstore.ErrTaskAlreadyExists, err)
	}
	if err != nil {
		return taskstore.TaskVersionMissing, err
	}
	return t.put(ctx, task, task, repo.Turn{SessionID: found.ID})
}

func (t tasks) Update(ctx context.Context, req *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	if _, err := t.Get(ctx, req.Task.ID); err != nil {
		return taskstore.TaskVersionMissing, err
	}
	turn, expected := repo.Turn{}, int64(req.PrevVersion)
	if req.PrevVersion != taskstore.TaskVersionMissing {
		turn.Expected = &expected
	}
	return t.put(ctx, req.Task, told(req.Task, req.Event), turn)
}

// put stores a task and the event for readers in one turn.
func (t tasks) put(ctx context.Context, task *a2a.Task, event a2a.Event, turn repo.Turn) (taskstore.TaskVersion, error) {
	message, invalidEvent := newMessage(event)
	status := a2a.TaskStatus{State: task.Status.State, Timestamp: task.Status.Timestamp}
	metadata, invalid := encode("task", a2a.Task{ContextID: task.ContextID, Status: status}) // for List
	value, invalidTask := encode("task", task)
	if err := errors.Join(invalidEvent, invalid, invalidTask); err != nil {
		return taskstore.TaskVersionMissing, err
	}
	message.Metadata = metadata
	change, conflict := repo.StateChange{Key: taskKey, Value: value}, taskstore.ErrConcurrentModification
	if !turn.SessionID.IsZero() {
		change.IfVersion, conflict = new(int64), taskstore.ErrTaskAlreadyExists
	}
	turn.ID, turn.Messages, turn.State = repo.NewID().String(), []repo.NewMessage{message}, []repo.StateChange{change}
	added, err := t.add(ctx, task.ID, turn)
	if errors.Is(err, repo.ErrUnknownOutcome) && ctx.Err() == nil { // it has an id, and so is stored once
		added, err = t.add(ctx, task.ID, turn)
	}
	switch {
	case errors.Is(err, repo.ErrNotFound):
		return taskstore.TaskVersionMissing, fmt.Errorf("%w: %w", a2a.ErrTaskNotFound, err)
	case errors.Is(err, repo.ErrConflict):
		return taskstore.TaskVersionMissing, fmt.Errorf("%w: %w", conflict, err)
	case err != nil:
		return taskstore.TaskVersionMissing, err
	}
	return taskstore.TaskVersion(added.Messages[0].Sequence + 1), nil
}

// encode returns JSON that can be read as a T again. What an agent says may be no UTF-8, or have NUL, which a state cannot have: U+FFFD
// stands for that.
func encode[T any](field string, value T) (json.RawMessage, error) {
	text, err := json.Marshal(value) // which does so for what is no UTF-8
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if bytes.HasPrefix(text[i:], []byte(`\u0000`)) {
				copy(text[i:], `\ufffd`)
			}
			i++
		}
	}
	var read T
	if err != nil || json.Unmarshal(text, &read) != nil {
		return nil, &repo.InvalidError{Field: field, Reason: "cannot be written as JSON and read again"}
	}
	return text, nil
}

// add adds a turn to the session of a task, which a turn that makes the task names.
func (t tasks) add(ctx context.Context, id a2a.TaskID, turn repo.Turn) (repo.AppendedTurn, error) {
	if !turn.SessionID.IsZero() {
		return t.store.Sessions().AppendTurn(ctx, turn)
	}
	return adapter.ByKey(ctx, t.store.Sessions(), t.key(id), func(id repo.ID) (repo.AppendedTurn, error) {
		turn.SessionID = id
		return t.store.Sessions().AppendTurn(ctx, turn)
	})
}

// newMessage returns the message with an event for readers. Nil: without a payload, and for none.
func newMessage(event a2a.Event) (message repo.NewMessage, err error) {
	message.ID, message.Role = repo.NewID(), repo.RoleAssistant
	if event != nil {
		message.Payload, err = encode("event", a2a.StreamResponse{Event: event})
	}
	return message, err
}

// Get finds only the user's own tasks.
func (t tasks) Get(ctx context.Context, id a2a.TaskID) (*taskstore.StoredTask, error) {
	user, err := t.user(ctx)
	if err != nil {
		return nil, err
	}
	session, _, err := adapter.ReadByKey(ctx, t.store.Sessions(), t.key(id), 1)
	switch {
	case errors.Is(err, repo.ErrNotFound), errors.Is(err, repo.ErrInvalid): // no task can have such an id
		return nil, a2a.ErrTaskNotFound
	case err != nil:
		return nil, err
	case session.State.Value(taskKey) == nil || session.Session.Owner != user:
		return nil, a2a.ErrTaskNotFound
	}
	stored := &taskstore.StoredTask{Version: taskstore.TaskVersion(session.Session.MessageCount), User: user}
	return stored, json.Unmarshal(session.State.Value(taskKey), &stored.Task)
}

// List lists the user's own tasks: the last updated comes first, and tasks that are updated after the first page come again at the
// end: so each is listed at least once. The protocol's total makes it read a line about each of them.
func (t tasks) List(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	response := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, PageSize: cmp.Or(req.PageSize, 50)}
	if size := response.PageSize; size < 1 || size > 100 {
		return nil, fmt.Errorf("page size must be between 1 and 100 inclusive, got %d: %w", size, a2a.ErrInvalidRequest)
	}
	begin, from, ok := strings.Cut(req.PageToken, " ")
	if ok = ok && strings.Contains(from, "/"); !ok && req.PageToken != "" {
		return nil, fmt.Errorf("page token: %w", a2a.ErrParseError)
	}
	places, err := t.places(ctx, req)
	if err != nil {
		return nil, err
	}
	order := func(a, b string) int {
		switch later := func(place string) bool { return begin != "" && place > begin+"0" }; { // "0" comes after "/"
		case later(a) != later(b):
			return map[bool]int{true: 1, false: -1}[later(a)]
		case later(a):
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	}
	slices.SortFunc(places, order)
	response.TotalSize = len(places)
	for _, place := range places {
		if from != "" && order(place, from) < 0 { // on a page before
			continue
		} else if len(response.Tasks) == response.PageSize {
			first, _, _ := strings.Cut(places[0], "/")
			response.NextPageToken = cmp.Or(begin, first) + " " + place
			break
		}
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

// places returns where the tasks are that a request selects: texts of the time of the last update and the id.
func (t tasks) places(ctx context.Context, req *a2a.ListTasksRequest) (places []string, err error) {
	filter := repo.SessionFilter{Namespace: t.options.Name}
	if filter.Owner, err = t.user(ctx); err != nil || filter.Owner == "" {
		return nil, a2a.ErrUnauthenticated
	}
	read := repo.ReadSessions{Last: 1, WithoutPayload: true, WithoutContent: true}
	for found, err := range adapter.EachSession(ctx, t.store.Sessions(), filter, read) {
		if err == nil && len(found.Messages) > 0 && found.Messages[0].Kind == repo.KindRedacted { // the task itself says it
			var stored *taskstore.StoredTask
			if stored, err = t.Get(ctx, a2a.TaskID(found.Session.Key)); errors.Is(err, a2a.ErrTaskNotFound) {
				continue
			} else if err == nil {
				found.Messages[0].Metadata, err = encode("task", stored.Task)
			}
		}
		if err != nil {
			return nil, err
		} else if len(found.Messages) > 0 && selected(found.Messages[0].Metadata, req) {
			places = append(places, fmt.Sprintf("%020d/%s", found.Session.UpdatedAt.UnixMicro(), found.Session.Key))
		}
	}
	return places, nil
}

// selected reports whether a request selects the task whose last update has this metadata.
func selected(metadata []byte, req *a2a.ListTasksRequest) bool {
	var s a2a.Task
	return json.Unmarshal(metadata, &s) == nil && string(metadata) != "{}" && // an answer without a task
		(req.ContextID == "" || req.ContextID == s.ContextID) &&
		(req.Status == a2a.TaskStateUnspecified || req.Status == s.Status.State) &&
		(req.StatusTimestampAfter == nil || s.Status.Timestamp == nil || !s.Status.Timestamp.Before(*req.StatusTimestampAfter))
}

// shorten leaves out of a task what a request does not ask for.
func shorten(task *a2a.Task, req *a2a.ListTasksRequest) *a2a.Task {
	history := *cmp.Or(req.HistoryLength, new(100))
	if history >= 0 && history < len(task.History) {
		task.History = task.History[len(task.History)-history:]
	}
	if !req.IncludeArtifacts {
		task.Artifacts = nil
	}
	return task
}

// events has a task's events where tasks has stored them, in one commit with the task. So none is
// lost between the two, however a process ends, and none is told of twice.
type events struct{ *Cluster }

// told returns the event for readers when an update by event has stored the task. Nil: none.
func told(task *a2a.Task, event a2a.Event) a2a.Event {
	state := task.Status.State
	switch e := event.(type) {
	case *a2a.TaskStatusUpdateEvent:
		if e.Status.State == state {
			return e
		}
	case *a2a.TaskArtifactUpdateEvent:
		if !state.Terminal() {
			return e
		}
	case *a2a.Message: // the user's, which is in the task's history now
		if !state.Terminal() {
			return nil
		}
	}
	return task // also if the framework did not accept the event, and has failed the task
}

// CreateReader returns a reader of the events from now on, also of a task that comes later. An answer
// without a task is read from its begin, since there is no other way to get it.
func (e events) CreateReader(ctx context.Context, id a2a.TaskID) (eventqueue.Reader, error) {
	session, err := e.sessionOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err = e.Tasks.Get(ctx, id); errors.Is(err, a2a.ErrTaskNotFound) {
		session.MessageCount, err = 0, nil
	}
	return reader{adapter.FollowMessages(context.WithoutCancel(ctx), e.store.Sessions(), session.ID, session.MessageCount)}, err
}

func (e events) CreateWriter(_ context.Context, id a2a.TaskID) (eventqueue.Writer, error) {
	return writer{e.Cluster, id}, nil
}

// Destroy has nothing to free: a queue is the task's own history, and is deleted with its session.
func (events) Destroy(context.Context, a2a.TaskID) error { return nil }

type writer struct {
	*Cluster
	id a2a.TaskID
}

// Write stores an answer without a task, which has no version. Other events are there already.
func (w writer) Write(ctx context.Context, message *eventqueue.Message) error {
	if message.TaskVersion != taskstore.TaskVersionMissing {
		return nil
	}
	m, err := newMessage(message.Event)
	if err != nil {
		return err
	}
	session, err := w.sessionOf(ctx, w.id)
	if err == nil {
		_, err = w.store.Sessions().Append(ctx, session.ID, m)
	}
	return err
}

func (writer) Close() error { return nil }

// reader holds nothing before the first Read. Close ends it, and so does a Read whose context ends.
type reader struct {
	*adapter.Follower[repo.Message]
}

func (r reader) Read(ctx context.Context) (*eventqueue.Message, error) {
	message, err := r.Next(ctx)
	for err == nil && len(message.Payload) == 0 {
		message, err = r.Next(ctx)
	}
	var response a2a.StreamResponse
	if err == nil {
		err = json.Unmarshal(message.Payload, &response)
	} else if errors.Is(err, repo.ErrClosed) || errors.Is(err, repo.ErrNotFound) { // closed or deleted
		err = eventqueue.ErrQueueClosed
	}
	if err != nil {
		return nil, err
	}
	version := taskstore.TaskVersion(message.Sequence + 1)
	if _, answer := response.Event.(*a2a.Message); answer {
		version = taskstore.TaskVersionMissing
	}
	return &eventqueue.Message{Event: response.Event, TaskVersion: version, Protocol: a2a.Version}, nil
}

// configs keeps a task's push configurations in the state of its session, in one key: they may be there before the task, and go
// with it.
type configs struct{ *Cluster }

const pushKey = "push" // in the session's state

func (p configs) Save(ctx context.Context, id a2a.TaskID, config *a2a.PushConfig) (*a2a.PushConfig, error) {
	if config == nil {
		return nil, fmt.Errorf("no push config: %w", a2a.ErrInvalidParams)
	} else if _, err := url.ParseRequestURI(config.URL); err != nil { // whose text has the secrets of the URL
		return nil, fmt.Errorf("push config endpoint is not a URL: %w", a2a.ErrInvalidParams)
	}
	saved := *config
	saved.TaskID, saved.ID = id, cmp.Or(config.ID, repo.NewID().String())
	return &saved, p.change(ctx, id, func(list []*a2a.PushConfig) []*a2a.PushConfig {
		if i := slices.IndexFunc(list, named(saved.ID)); i >= 0 {
			list[i] = &saved
			return list
		}
		return append(list, &saved)
	})
}

func (p configs) Get(ctx context.Context, id a2a.TaskID, configID string) (*a2a.PushConfig, error) {
	list, err := p.List(ctx, id)
	if err != nil {
		return nil, err
	} else if i := slices.IndexFunc(list, named(configID)); i >= 0 {
		return list[i], nil
	}
	return nil, push.ErrPushConfigNotFound
}

func (p configs) List(ctx context.Context, id a2a.TaskID) ([]*a2a.PushConfig, error) {
	if exists, err := p.exists(ctx, id); !exists {
		return nil, err
	}
	session, err := p.sessionOf(ctx, id)
	if err != nil {
		return nil, err
	}
	list, _, err := p.read(ctx, session.ID)
	return list, err
}

func (p configs) Delete(ctx context.Context, id a2a.TaskID, configID string) error {
	return p.remove(ctx, id, named(configID))
}

func (p configs) DeleteAll(ctx context.Context, id a2a.TaskID) error {
	return p.remove(ctx, id, func(*a2a.PushConfig) bool { return true })
}

func (p configs) remove(ctx context.Context, id a2a.TaskID, which func(*a2a.PushConfig) bool) error {
	if exists, err := p.exists(ctx, id); !exists {
		return err
	}
	return p.change(ctx, id, func(list []*a2a.PushConfig) []*a2a.PushConfig { return slices.DeleteFunc(list, which) })
}

// exists reports whether there is anything of a task, which only Save makes.
func (p configs) exists(ctx context.Context, id a2a.TaskID) (bool, error) {
	_, err := p.store.Sessions().Find(ctx, repo.SessionKey{Namespace: p.options.Name, Key: string(id)})
	if errors.Is(err, repo.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func named(id string) func(*a2a.PushConfig) bool {
	return func(config *a2a.PushConfig) bool { return config.ID == id }
}

// read returns the configurations, and the version that has them.
func (p configs) read(ctx context.Context, session repo.ID) (list []*a2a.PushConfig, version int64, err error) {
	stored, err := p.store.State().Get(ctx, repo.Scope{SessionID: session}, pushKey)
	if missing, is := errors.AsType[*repo.NotFoundError](err); is && missing.Kind != "session" {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, notFound(err)
	}
	return list, stored.Version, json.Unmarshal(stored.Value, &list)
}

// change changes the configurations, and again if others have meanwhile.
func (p configs) change(ctx context.Context, id a2a.TaskID, do func([]*a2a.PushConfig) []*a2a.PushConfig) error {
	session, err := p.sessionOf(ctx, id)
	for attempt := 0; err == nil && attempt < 100; attempt++ {
		list, version, e := p.read(ctx, session.ID)
		if e != nil {
			return e
		}
		value, e := adapter.EncodeJSON("push config", do(list))
		if e != nil {
			return e
		}
		change := repo.StateChange{Scope: repo.Scope{SessionID: session.ID}, Key: pushKey, Value: value, IfVersion: &version}
		if _, e = p.store.State().Change(ctx, []repo.StateChange{change}); !errors.Is(e, repo.ErrConflict) {
			return e
		}
	}
	return cmp.Or(err, repo.ErrContention)
}
