package ehstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	eh "github.com/looplab/eventhorizon"
	"github.com/looplab/eventhorizon/uuid"

	"github.com/seed-df90f812/agentstore"
	ehstore "github.com/seed-df90f812/agentstore/adapters/eventstore/eventhorizon"
)

// deposited is an event's data.
type deposited struct{ Amount int }

func Example() {
	eh.RegisterEventData("deposited", func() eh.EventData { return &deposited{} })
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://eventhorizon", agentstore.Options{}) // or a PostgreSQL URL
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	var events eh.EventStore = ehstore.NewEventStore(store.Sessions(), ehstore.Options{})
	account := uuid.MustParse("b4b4b4b4-0000-4000-8000-000000000001")
	for i, amount := range []int{10, 5} {
		event := eh.NewEvent("deposited", &deposited{amount}, time.Now(), eh.ForAggregate("account", account, i+1))
		if err := events.Save(ctx, []eh.Event{event}, i); err != nil {
			log.Fatal(err)
		}
	}
	late := eh.NewEvent("deposited", &deposited{1}, time.Now(), eh.ForAggregate("account", account, 2))
	fmt.Println(errors.Is(events.Save(ctx, []eh.Event{late}, 1), eh.ErrEventConflictFromOtherSave))

	history, err := events.Load(ctx, account)
	if err != nil {
		log.Fatal(err)
	}
	for _, event := range history {
		fmt.Println(event.Version(), event.EventType(), event.Data().(*deposited).Amount)
	}
	// Output:
	// true
	// 1 deposited 10
	// 2 deposited 5
}
