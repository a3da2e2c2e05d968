// Package bench holds benchmarks in Go's own form, so that benchstat compares
// releases:
//
//	go run ./tests/cmd/disposable -durable go test -run '^$' -bench . -count 10 ./tests/bench
//
// The command agentstore bench compares the library with other ways of doing the
// same; these follow its own cost, allocations included.
package bench
