// Package bench contains benchmarks in the form of Go's, so that benchstat can
// compare releases:
//
//	go run ./tests/cmd/disposable -durable go test -run '^$' -bench . -count 10 ./tests/bench
//
// The command agentstore bench compares the library with other implementations; these
// benchmarks track its own cost, including allocations.
package bench
