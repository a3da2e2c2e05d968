module github.com/seed-df90f812/agentstore/tests

go 1.26.0
