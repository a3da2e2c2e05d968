package a2astore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/seed-df90f812/agentstore/repo"
)

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

// CreateReader returns a reader of the events from now on, also of a task that comes later.
func (e events) CreateReader(ctx context.Context, id a2a.TaskID) (eventqueue.Reader, error) {
	session, err := e.store.Sessions().Create(ctx, e.session(ctx, id))
	if err != nil {
		return nil, err
	}
	return reader{repo.NewFollower(context.WithoutCancel(ctx), func(ctx context.Context) iter.Seq2[repo.Message, error] {
		return e.store.Sessions().Follow(ctx, session.ID, session.MessageCount)
	})}, nil
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
	if err == nil {
		_, err = repo.ByKey(w.store.Sessions(), w.key(w.id)).AppendOrCreate(ctx, w.session(ctx, w.id), m)
	}
	return err
}

func (writer) Close() error { return nil }

// reader holds nothing before the first Read. Close ends it, and so does a Read whose context ends.
type reader struct{ *repo.Follower[repo.Message] }

func (r reader) Read(ctx context.Context) (*eventqueue.Message, error) {
	message, err := r.Next(ctx)
	for err == nil && len(message.Payload) == 0 {
		message, err = r.Next(ctx)
	}
	if errors.Is(err, repo.ErrClosed) || errors.Is(err, repo.ErrNotFound) { // closed or deleted
		return nil, eventqueue.ErrQueueClosed
	}
	var response a2a.StreamResponse
	if err == nil {
		err = json.Unmarshal(message.Payload, &response)
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
