package esstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/hallgren/eventsourcing/core"

	"github.com/seed-df90f812/agentstore"
	esstore "github.com/seed-df90f812/agentstore/adapters/eventstore/eventsourcing"
)

func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://eventsourcing", agentstore.Options{}) // or a PostgreSQL URL
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	var events core.EventStore = esstore.NewEventStore(store, esstore.Options{})
	account := func(version core.Version, amount string) []core.Event {
		return []core.Event{{AggregateID: "1", AggregateType: "account", Version: version, Reason: "deposited", Timestamp: time.Now(), Data: []byte(amount)}}
	}
	for i, amount := range []string{"10", "5"} {
		if err := events.Save(account(core.Version(i+1), amount)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(errors.Is(events.Save(account(2, "1")), core.ErrConcurrency))

	history, err := events.Get(ctx, "1", "account", 0)
	if err != nil {
		log.Fatal(err)
	}
	defer history.Close()
	for history.Next() {
		event, err := history.Value()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Version, event.GlobalVersion, event.Reason, string(event.Data))
	}
	// Output:
	// true
	// 1 1 deposited 10
	// 2 2 deposited 5
}
