module github.com/seed-df90f812/agentstore/adapters/a2a

go 1.26.0

require (
	github.com/a2aproject/a2a-go/v2 v2.4.0
	github.com/seed-df90f812/agentstore v0.0.0-00010101000000-000000000000
)

require (
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
)

replace github.com/seed-df90f812/agentstore => ../..
