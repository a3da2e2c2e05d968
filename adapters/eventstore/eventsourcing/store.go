// Package esstore is an event store for programs that are built on
// github.com/hallgren/eventsourcing: an aggregate is a session of an agentstore, and an
// event a message of it. README.md, in the directory above, says what maps to what. The API
// may change with eventsourcing's.
package esstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hallgren/eventsourcing/core"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// DefaultNamespace is the namespace of the sessions by default.
	DefaultNamespace = "eventsourcing"
	// patience bounds a Save, to which the interface gives no context.
	patience = 30 * time.Second
	// counter is the key of the number of events, in the shared scope that is named like the
	// namespace.
	counter = "events"
)

// Options are options of an EventStore. The zero value is the default.
type Options struct {
	// Namespace groups the sessions, and has the global order. Empty: DefaultNamespace. At
	// most repo.MaxNameBytes.
	Namespace string
	// Unordered: events have no GlobalVersion. Then savers of different aggregates do not
	// wait for each other.
	Unordered bool
}

// EventStore is a [core.EventStore]. It is safe for concurrent use.
type EventStore struct {
	store   repo.Store
	options Options
}

var _ core.EventStore = (*EventStore)(nil)

// NewEventStore returns an event store on store.
func NewEventStore(store repo.Store, options Options) *EventStore {
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	return &EventStore{store, options}
}

// Key returns the key of an aggregate's session.
func (s *EventStore) Key(id, aggregateType string) repo.SessionKey {
	return repo.SessionKey{Namespace: s.options.Namespace, Key: repo.JoinKey(aggregateType, id)}
}

// Save implements [core.EventStore]: all events, which are of one aggregate and have
// consecutive versions, are saved or none, and have then a GlobalVersion. Each is larger
// than those that were saved before, in the order of commits; without gaps. Of those who
// save the same version at once one succeeds, and the others get core.ErrConcurrency.
// Errors are those of the store, too: after repo.ErrUnknownOutcome the events may have been
// saved.
func (s *EventStore) Save(events []core.Event) error {
	if len(events) == 0 {
		return nil
	}
	for i, event := range events {
		first := events[0]
		if event.AggregateID != first.AggregateID || event.AggregateType != first.AggregateType {
			return &repo.InvalidError{Field: fmt.Sprintf("events[%d]", i), Reason: "is of another aggregate than the first"}
		}
		if event.Version == 0 || event.Version != first.Version+core.Version(i) {
			return fmt.Errorf("%w: events[%d] does not follow the one before", core.ErrConcurrency, i)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var end core.Version
	var err error
	if s.options.Unordered {
		err = s.append(ctx, s.store, events, 0)
	} else {
		err = s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
			if end, err = s.advance(ctx, tx.State(), len(events)); err != nil {
				return err
			}
			return s.append(ctx, tx, events, end)
		})
	}
	_, conflict := errors.AsType[*repo.SequenceConflictError](err)
	if conflict || errors.Is(err, repo.ErrNotFound) {
		return fmt.Errorf("%w: %w", core.ErrConcurrency, err)
	}
	if err == nil {
		number(events, end)
	}
	return err
}

// advance adds to the number of events, and returns it. Until the transaction has ended,
// nobody else gets one.
func (s *EventStore) advance(ctx context.Context, state repo.State, by int) (core.Version, error) {
	scope := repo.Scope{Name: s.options.Namespace}
	if _, err := state.Change(ctx, []repo.StateChange{{Scope: scope, Key: counter, Op: repo.StateIncrement, By: int64(by)}}); err != nil {
		return 0, err
	}
	value, err := state.Get(ctx, scope, counter)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseUint(string(value.Value), 10, 64)
	return core.Version(number), err
}

// number gives events their places in the global order, of which the last is end.
func number(events []core.Event, end core.Version) {
	for i := range events {
		if events[i].GlobalVersion = 0; end > 0 {
			events[i].GlobalVersion = end - core.Version(len(events)-1-i)
		}
	}
}

func (s *EventStore) append(ctx context.Context, r repo.Repositories, events []core.Event, end core.Version) error {
	events = append([]core.Event(nil), events...)
	number(events, end)
	expected := int64(events[0].Version - 1)
	turn := repo.Turn{ID: repo.NewID(), Expected: &expected}
	for i, event := range events {
		data, err := json.Marshal(event)
		if err != nil {
			return &repo.InvalidError{Field: fmt.Sprintf("events[%d].Timestamp", i), Reason: "cannot be written as JSON"} // all else can
		}
		turn.Messages = append(turn.Messages, repo.NewMessage{
			Role: repo.RoleSystem, Kind: event.Reason, Payload: data, OccurredAt: event.Timestamp,
		})
	}
	if expected == 0 {
		turn.Create = &repo.NewSession{Actor: events[0].AggregateType}
	}
	_, err := repo.ByKey(r.Sessions(), s.Key(events[0].AggregateID, events[0].AggregateType)).AppendTurn(ctx, turn)
	return err
}

// Get implements [core.EventStore]. An aggregate without events has none. The events are
// read while the iterator is, in chunks; it has to be closed. If the aggregate is deleted
// before all were read, the last Value is repo.ErrNotFound.
func (s *EventStore) Get(ctx context.Context, id, aggregateType string, afterVersion core.Version) (core.Iterator, error) {
	return newIterator(s.store.Sessions().Stream(ctx, s.Key(id, aggregateType).ID(), int64(afterVersion))), nil
}
