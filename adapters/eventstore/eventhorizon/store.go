// Package ehstore is an event store for programs that are built on
// github.com/looplab/eventhorizon: an aggregate is a session of an agentstore, and an event
// a message of it. README.md says what maps to what. The API may change with
// eventhorizon's.
package ehstore

import (
	"context"
	"errors"
	"fmt"

	eh "github.com/looplab/eventhorizon"
	"github.com/looplab/eventhorizon/codec/json"
	"github.com/looplab/eventhorizon/uuid"

	"github.com/seed-df90f812/agentstore/repo"
)

// DefaultNamespace is the namespace of the sessions by default.
const DefaultNamespace = "eventhorizon"

// Options are options of an EventStore. The zero value is the default.
type Options struct {
	// Namespace groups the sessions: an aggregate's id is unique in it. Empty:
	// DefaultNamespace. At most repo.MaxNameBytes.
	Namespace string
	// Codec makes bytes of events. Nil: eventhorizon's JSON.
	Codec eh.EventCodec
	// EventHandler, such as an event bus, gets each event after it was saved. Nil: none.
	EventHandler eh.EventHandler
}

// EventStore is an [eh.EventStore] on the sessions of a store. It is safe for concurrent
// use. Its errors are EventStoreErrors, which wrap eventhorizon's and the store's.
type EventStore struct {
	sessions repo.Sessions
	options  Options
}

var _ eh.EventStore = (*EventStore)(nil)

// NewEventStore returns an event store on sessions.
func NewEventStore(sessions repo.Sessions, options Options) *EventStore {
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	if options.Codec == nil {
		options.Codec = &json.EventCodec{}
	}
	return &EventStore{sessions, options}
}

// Key returns the key of an aggregate's session.
func (s *EventStore) Key(id uuid.UUID) repo.SessionKey {
	return repo.SessionKey{Namespace: s.options.Namespace, Key: id.String()}
}

// Save implements [eh.EventStore]: all events are saved, after originalVersion, or none.
// Of those who save at the same version at once one succeeds, and the others get
// eh.ErrEventConflictFromOtherSave. If the error is repo.ErrUnknownOutcome, the events may
// have been saved: load the aggregate. If the EventHandler fails, they have been, and the
// error is an EventHandlerError.
func (s *EventStore) Save(ctx context.Context, events []eh.Event, originalVersion int) error {
	if err := s.save(ctx, events, originalVersion); err != nil {
		failed := &eh.EventStoreError{Err: err, Op: eh.EventStoreOpSave, AggregateVersion: originalVersion, Events: events}
		if len(events) > 0 {
			failed.AggregateType, failed.AggregateID = events[0].AggregateType(), events[0].AggregateID()
		}
		return failed
	}
	if s.options.EventHandler == nil {
		return nil
	}
	for _, event := range events {
		if err := s.options.EventHandler.HandleEvent(ctx, event); err != nil {
			return &eh.EventHandlerError{Err: err, Event: event}
		}
	}
	return nil
}

// attempts bounds how often a turn is sent whose answer is lost.
const attempts = 3

func (s *EventStore) save(ctx context.Context, events []eh.Event, originalVersion int) error {
	if len(events) == 0 {
		return eh.ErrMissingEvents
	}
	expected := int64(originalVersion)
	turn := repo.Turn{ID: repo.NewID(), Expected: &expected}
	for i, event := range events {
		message, err := s.message(ctx, event, events[0], originalVersion+i+1)
		if err != nil {
			return err
		}
		turn.Messages = append(turn.Messages, message)
	}
	if originalVersion == 0 {
		turn.Create = &repo.NewSession{Actor: string(events[0].AggregateType())}
	}
	session := repo.ByKey(s.sessions, s.Key(events[0].AggregateID()))
	_, err := session.AppendTurn(ctx, turn)
	for try := 1; errors.Is(err, repo.ErrUnknownOutcome) && ctx.Err() == nil && try < attempts; try++ {
		_, err = session.AppendTurn(ctx, turn) // the same turn is stored once
	}
	_, conflict := errors.AsType[*repo.SequenceConflictError](err)
	if conflict || errors.Is(err, repo.ErrNotFound) {
		return fmt.Errorf("%w: %w", eh.ErrEventConflictFromOtherSave, err)
	}
	return err
}

// message returns the message of an event, which has to have a version, and to belong to the
// aggregate of the first one.
func (s *EventStore) message(ctx context.Context, event, first eh.Event, version int) (repo.NewMessage, error) {
	switch {
	case event.AggregateID() != first.AggregateID():
		return repo.NewMessage{}, eh.ErrMismatchedEventAggregateIDs
	case event.AggregateType() != first.AggregateType():
		return repo.NewMessage{}, eh.ErrMismatchedEventAggregateTypes
	case event.Version() != version:
		return repo.NewMessage{}, eh.ErrIncorrectEventVersion
	}
	data, err := s.options.Codec.MarshalEvent(ctx, event)
	return repo.NewMessage{
		Role: repo.RoleSystem, Kind: string(event.EventType()), Payload: data, OccurredAt: event.Timestamp(),
	}, err
}

// Load implements [eh.EventStore]. The error of an aggregate without events is
// eh.ErrAggregateNotFound.
func (s *EventStore) Load(ctx context.Context, id uuid.UUID) ([]eh.Event, error) {
	return s.LoadFrom(ctx, id, 1)
}

// LoadFrom implements [eh.EventStore]. The first event has version 1.
func (s *EventStore) LoadFrom(ctx context.Context, id uuid.UUID, version int) (events []eh.Event, err error) {
	for message, err := range s.sessions.Stream(ctx, s.Key(id).ID(), int64(max(version-1, 0))) {
		var event eh.Event
		if err == nil {
			event, _, err = s.options.Codec.UnmarshalEvent(ctx, message.Payload)
		}
		if errors.Is(err, repo.ErrNotFound) {
			err = fmt.Errorf("%w: %w", eh.ErrAggregateNotFound, err)
		}
		if err != nil {
			return nil, &eh.EventStoreError{Err: err, Op: eh.EventStoreOpLoad, AggregateID: id, AggregateVersion: int(message.Sequence) + 1}
		}
		events = append(events, event)
	}
	if len(events) == 0 && version <= 1 {
		return nil, &eh.EventStoreError{Err: eh.ErrAggregateNotFound, Op: eh.EventStoreOpLoad, AggregateID: id}
	}
	return events, nil
}

// Close implements [eh.EventStore]. It leaves the store, which is the caller's.
func (*EventStore) Close() error { return nil }
