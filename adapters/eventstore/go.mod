module github.com/seed-df90f812/agentstore/adapters/eventstore

go 1.26.0

require (
	github.com/looplab/eventhorizon v0.16.0
	github.com/seed-df90f812/agentstore v0.0.0-00010101000000-000000000000
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/pressly/goose/v3 v3.29.0 // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/hallgren/eventsourcing/core v0.4.0
	github.com/oklog/ulid/v2 v2.1.2 // indirect
)

replace github.com/seed-df90f812/agentstore => ../..
