package eventstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hallgren/eventsourcing/core"
	"github.com/hallgren/eventsourcing/core/testsuite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	esstore "github.com/seed-df90f812/agentstore/adapters/eventstore/eventsourcing"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The suite's random numbers are not safe for two of it at once.
func TestEventSourcingSuite(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			store := open(t)[0]
			testsuite.Test(t, func() (core.EventStore, func(), error) {
				return esstore.NewEventStore(store, esstore.Options{}), func() {}, nil
			})
		})
	}
}

// history reads an aggregate.
func history(t *testing.T, store core.EventStore, id string) (all []core.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := store.Get(ctx, id, "counter", 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer events.Close()
	for events.Next() {
		event, err := events.Value()
		if err != nil {
			t.Error(err)
			return nil
		}
		all = append(all, event)
	}
	return all
}

// racing lets savers race to add events to their aggregates, two by two in one step. It
// returns the global versions that were acknowledged, and what is wrong. ordered: there are
// global versions.
func racing(t *testing.T, ordered bool, stores ...core.EventStore) (global []core.Version, faults []string) {
	t.Helper()
	const aggregates, savers, saves = 3, 6, 3
	var mu sync.Mutex
	var all sync.WaitGroup
	acknowledged := map[string]bool{}
	fault := func(format string, arguments ...any) {
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, fmt.Sprintf(format, arguments...))
	}
	name := func(aggregate int) string { return fmt.Sprint("of many ", aggregate%aggregates) }
	for saver := range savers {
		store, id := stores[saver%len(stores)], name(saver)
		all.Go(func() {
			for done, deadline := 0, time.Now().Add(time.Minute); done < saves; {
				if time.Now().After(deadline) {
					t.Error("a saver takes more than a minute")
					return
				}
				next := core.Version(1)
				if before := history(t, store, id); len(before) > 0 {
					next = before[len(before)-1].Version + 1
				}
				events := []core.Event{
					{AggregateID: id, AggregateType: "counter", Version: next, Reason: "one", Data: fmt.Append(nil, saver, " ", done)},
					{AggregateID: id, AggregateType: "counter", Version: next + 1, Reason: "other"},
				}
				err := store.Save(events)
				if errors.Is(err, core.ErrConcurrency) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				done++
				mu.Lock()
				acknowledged[string(events[0].Data)] = true
				global = append(global, events[0].GlobalVersion, events[1].GlobalVersion)
				mu.Unlock()
				seen := 0
				for aggregate := range aggregates {
					seen += len(history(t, store, name(aggregate)))
				}
				if ordered && seen < int(events[1].GlobalVersion) {
					fault("%d events are there after number %d", seen, events[1].GlobalVersion)
				}
			}
		})
	}
	all.Wait()
	var stored []core.Version
	for aggregate := range aggregates {
		for i, event := range history(t, stores[0], name(aggregate)) {
			stored = append(stored, event.GlobalVersion)
			if event.Version != core.Version(i+1) {
				fault("version %d after %d events", event.Version, i)
			}
			delete(acknowledged, string(event.Data))
		}
	}
	if len(acknowledged) > 0 {
		fault("%d acknowledged events are lost", len(acknowledged))
	}
	slices.Sort(global)
	if slices.Sort(stored); !slices.Equal(global, stored) {
		fault("the numbers %v are stored, and %v are acknowledged", stored, global)
	}
	for i, version := range global {
		if ordered && version != core.Version(i+1) {
			fault("number %d after %d", version, i)
			break
		}
	}
	return global, faults
}

// Savers of one aggregate and of others lose nothing. The global order has no gap, and who
// has an event of it finds all before.
func TestEventSourcingSavesRace(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		options := esstore.Options{Namespace: "ordered"}
		_, faults := racing(t, true, esstore.NewEventStore(stores[0], options), esstore.NewEventStore(stores[1], options))
		for _, fault := range faults {
			t.Error(fault)
		}
		options = esstore.Options{Namespace: "unordered", Unordered: true}
		global, faults := racing(t, false, esstore.NewEventStore(stores[0], options), esstore.NewEventStore(stores[1], options))
		for _, fault := range faults {
			t.Error(fault)
		}
		if slices.Max(global) != 0 {
			t.Errorf("global versions without an order: %v", global)
		}
	})
}

// naive is a store on PostgreSQL that looks for the version, and then inserts.
type naive struct{ pool *pgxpool.Pool }

const naiveTable = `CREATE TABLE events (id text, version bigint, number bigint GENERATED ALWAYS AS IDENTITY, data bytea)`

func (n naive) Save(events []core.Event) error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		var last core.Version
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM events WHERE id = $1`, events[0].AggregateID).Scan(&last); err != nil {
			return err
		}
		if last+1 != events[0].Version {
			return core.ErrConcurrency
		}
		for i, event := range events {
			if err := tx.QueryRow(ctx, `INSERT INTO events (id, version, data) VALUES ($1, $2, $3) RETURNING number`,
				event.AggregateID, event.Version, event.Data).Scan(&events[i].GlobalVersion); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n naive) Get(ctx context.Context, id, _ string, _ core.Version) (core.Iterator, error) {
	rows, err := n.pool.Query(ctx, `SELECT version, number, data FROM events WHERE id = $1 ORDER BY version`, id)
	return naiveRows{rows}, err
}

type naiveRows struct{ pgx.Rows }

func (r naiveRows) Value() (event core.Event, err error) {
	err = r.Scan(&event.Version, &event.GlobalVersion, &event.Data)
	return event, err
}

// The same savers are seen to break a store that looks for the version first.
func TestNaiveStoreBreaks(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewEmptyDatabase(t))
	pgtest.Exec(t, pool, naiveTable)
	for range 100 {
		if _, faults := racing(t, true, naive{pool}); len(faults) > 0 {
			t.Log(faults)
			return
		}
		pgtest.Exec(t, pool, `TRUNCATE events RESTART IDENTITY`)
	}
	t.Error("nothing breaks it")
}

func TestEventSourcingErrors(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		store := esstore.NewEventStore(stores[0], esstore.Options{})
		event := func(id string, version core.Version) core.Event {
			return core.Event{AggregateID: id, AggregateType: "counter", Version: version, Timestamp: time.Now()}
		}
		far := event("a", 1)
		far.Timestamp = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		for name, c := range map[string]struct {
			events []core.Event
			want   error
		}{
			"nothing":       {nil, nil},
			"a far year":    {[]core.Event{far}, repo.ErrInvalid},
			"no version":    {[]core.Event{event("a", 0)}, core.ErrConcurrency},
			"a gap":         {[]core.Event{event("a", 1), event("a", 3)}, core.ErrConcurrency},
			"two":           {[]core.Event{event("a", 1), event("b", 2)}, repo.ErrInvalid},
			"too long a id": {[]core.Event{event(string(make([]byte, repo.MaxKeyBytes)), 1)}, repo.ErrInvalid},
		} {
			if err := store.Save(c.events); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all := history(t, store, "a"); len(all) != 0 {
			t.Errorf("%v was saved", all)
		}
		// What is refused takes no place in the global order.
		events := []core.Event{event("a", 1)}
		if err := store.Save(events); err != nil || events[0].GlobalVersion != 1 {
			t.Errorf("global version %d, %v", events[0].GlobalVersion, err)
		}
		if err := store.Save([]core.Event{event("a", 1)}); !errors.Is(err, core.ErrConcurrency) {
			t.Errorf("version 1 again: %v", err)
		}
		events = []core.Event{event("a", 2)}
		if err := store.Save(events); err != nil || events[0].GlobalVersion != 2 {
			t.Errorf("global version %d, %v", events[0].GlobalVersion, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		iterator, err := store.Get(ended, "a", "counter", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer iterator.Close()
		for range 2 {
			iterator.Next()
			if _, err := iterator.Value(); !errors.Is(err, context.Canceled) {
				t.Errorf("a context that has ended: %v", err)
			}
		}
	})
}

// An aggregate that is deleted while it is read ends with an error: it would look as if it had fewer events.
func TestEventSourcingDeletedWhileRead(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		store := esstore.NewEventStore(stores[0], esstore.Options{})
		events := make([]core.Event, 300) // more than are read at once
		for i := range events {
			events[i] = core.Event{AggregateID: "a", AggregateType: "counter", Version: core.Version(i + 1), Reason: "r", Timestamp: time.Now()}
		}
		if err := store.Save(events); err != nil {
			t.Fatal(err)
		}
		all, err := store.Get(t.Context(), "a", "counter", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		read := 0
		for all.Next() {
			if _, err = all.Value(); err != nil {
				break
			}
			if read++; read == 1 {
				if _, err := stores[1].Sessions().Delete(t.Context(), store.Key("a", "counter").ID()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if read < len(events) && !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("%d of %d events, and the error %v", read, len(events), err)
		}
	})
}
