package eventstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	eh "github.com/looplab/eventhorizon"
	"github.com/looplab/eventhorizon/eventstore"
	"github.com/looplab/eventhorizon/eventstore/memory"
	"github.com/looplab/eventhorizon/mocks"
	"github.com/looplab/eventhorizon/uuid"

	ehstore "github.com/seed-df90f812/agentstore/adapters/eventstore/eventhorizon"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestEventHorizonAcceptance(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		saved := eventstore.AcceptanceTest(t, ehstore.NewEventStore(stores[0].Sessions(), ehstore.Options{}), t.Context())
		other := ehstore.NewEventStore(stores[1].Sessions(), ehstore.Options{})
		loaded, err := other.LoadFrom(t.Context(), saved[0].AggregateID(), 4)
		if err != nil || !eh.CompareEventSlices(loaded, saved[3:6]) {
			t.Errorf("another process loads %v from version 4, %v; want %v", loaded, err, saved[3:6])
		}
		separate := ehstore.NewEventStore(stores[1].Sessions(), ehstore.Options{Namespace: "other"})
		if _, err := separate.Load(t.Context(), saved[0].AggregateID()); !errors.Is(err, eh.ErrAggregateNotFound) {
			t.Errorf("another namespace: %v", err)
		}
	})
}

// saving lets savers race to add to an aggregate: each loads it, and saves one event at the
// version that it found, until saves of its own are acknowledged. It returns how many
// acknowledged events are missing at the end.
func saving(t *testing.T, savers, saves int, stores ...eh.EventStore) (lost int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := uuid.New()
	var acknowledged sync.Map
	var all sync.WaitGroup
	for saver := range savers {
		store := stores[saver%len(stores)]
		all.Go(func() {
			for done := 0; done < saves && ctx.Err() == nil; {
				history, err := store.Load(ctx, id)
				if err != nil && !errors.Is(err, eh.ErrAggregateNotFound) {
					t.Error(err)
					return
				}
				content := fmt.Sprintf("%d of %d", done, saver)
				event := eh.NewEvent(mocks.EventType, &mocks.EventData{Content: content}, time.Now(),
					eh.ForAggregate(mocks.AggregateType, id, len(history)+1))
				switch err := store.Save(ctx, []eh.Event{event}, len(history)); {
				case err == nil:
					acknowledged.Store(content, true)
					done++
				case !errors.Is(err, eh.ErrEventConflictFromOtherSave):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	history, err := stores[0].Load(ctx, id)
	if err != nil {
		t.Error(err)
	}
	for i, event := range history {
		if event.Version() != i+1 {
			t.Errorf("version %d after %d events", event.Version(), i)
		}
		acknowledged.Delete(event.Data().(*mocks.EventData).Content)
	}
	acknowledged.Range(func(any, any) bool { lost++; return true })
	if ctx.Err() != nil {
		t.Error("the savers take more than a minute")
	}
	return lost
}

// What is acknowledged is there, whoever saves at the same moment.
func TestEventHorizonSavesRace(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		one := ehstore.NewEventStore(stores[0].Sessions(), ehstore.Options{})
		other := ehstore.NewEventStore(stores[1].Sessions(), ehstore.Options{})
		for range 3 {
			if lost := saving(t, 8, 3, one, other); lost > 0 {
				t.Errorf("%d events are lost", lost)
			}
		}
	})
}

// The same savers lose events with eventhorizon's own store, which does not notice two
// that begin an aggregate.
func TestEventHorizonMemoryStoreLosesEvents(t *testing.T) {
	t.Parallel()
	store, err := memory.NewEventStore()
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		if lost := saving(t, 8, 1, store); lost > 0 {
			t.Logf("%d of 8 events are lost", lost)
			return
		}
	}
	t.Error("it loses nothing")
}

// lossy loses the first answer.
type lossy struct {
	repo.Sessions
	appends int
}

func (l *lossy) AppendTurn(ctx context.Context, id repo.ID, turn repo.Turn) (repo.AppendedTurn, error) {
	added, err := l.Sessions.AppendTurn(ctx, id, turn)
	if l.appends++; l.appends == 1 {
		return repo.AppendedTurn{}, repo.ErrUnknownOutcome
	}
	return added, err
}

// What is saved is saved once, also if the answer is lost.
func TestEventHorizonLostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		sessions := &lossy{Sessions: stores[0].Sessions()}
		if lost := saving(t, 1, 2, ehstore.NewEventStore(sessions, ehstore.Options{})); lost != 0 || sessions.appends != 3 {
			t.Errorf("%d events are lost after %d appends", lost, sessions.appends)
		}
	})
}

// failing is a handler that fails.
type failing struct{ handled atomic.Int64 }

func (*failing) HandlerType() eh.EventHandlerType { return "failing" }

func (f *failing) HandleEvent(context.Context, eh.Event) error {
	f.handled.Add(1)
	return errors.New("no")
}

func TestEventHorizonErrors(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		handler := &failing{}
		store := ehstore.NewEventStore(stores[0].Sessions(), ehstore.Options{EventHandler: handler})
		id := uuid.New()
		event := func(version int) []eh.Event {
			return []eh.Event{eh.NewEvent(mocks.EventOtherType, nil, time.Now(), eh.ForAggregate(mocks.AggregateType, id, version))}
		}
		ctx := t.Context()
		if err := store.Save(ctx, event(3), 2); !errors.Is(err, eh.ErrEventConflictFromOtherSave) || !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("version 3 of nothing: %v", err)
		}
		var handled *eh.EventHandlerError
		if err := store.Save(ctx, event(1), 0); !errors.As(err, &handled) || handler.handled.Load() != 1 {
			t.Errorf("a handler that fails, called %d times: %v", handler.handled.Load(), err)
		}
		if err := store.Save(ctx, event(1), 0); !errors.Is(err, eh.ErrEventConflictFromOtherSave) || handler.handled.Load() != 1 {
			t.Errorf("version 1 again, handled %d: %v", handler.handled.Load(), err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := store.Save(ended, event(2), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		if events, err := store.Load(ctx, id); err != nil || len(events) != 1 {
			t.Errorf("%v, %v", events, err)
		}
		if events, err := store.LoadFrom(ctx, id, 2); err != nil || len(events) != 0 {
			t.Errorf("from the next version: %v, %v", events, err)
		}
	})
}
