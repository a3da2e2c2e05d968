package a2astore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	read := repo.ReadSessions{IDs: []repo.ID{t.key(id).ID()}, State: true}
	snapshot, err := t.store.Sessions().Read(ctx, read)
	if err != nil {
		return nil, err
	}
	stored := &taskstore.StoredTask{}
	if session := snapshot.Sessions[0]; session != nil {
		stored.Version = taskstore.TaskVersion(session.Session.MessageCount)
		for _, value := range session.State.Values {
			if value.Key == taskKey { // others are an agent's own
				return stored, json.Unmarshal(value.Value, &stored.Task)
			}
		}
	}
	return nil, a2a.ErrTaskNotFound
}
