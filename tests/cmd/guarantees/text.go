package main

const introduction = `<!-- Written by make generate, from the comments of the tests. -->

# Guarantees and their tests

Each guarantee is a link to the test that fails without it. Those in repo/repotest are the conformance suite, which both stores pass. A test
of concurrency also runs a naive implementation, whose errors the same harness must find. The tests run at read committed, with
` + "`fsync`" + ` and ` + "`synchronous_commit`" + ` on; ` + "`make test/matrix`" + ` repeats them on PostgreSQL 13 to 18 and under other settings.
`

const limits = `
## Limits

- The disk is assumed to keep what was flushed: the tests kill processes, not the machine.
- A connection that hangs is noticed when a call's context ends. Give calls a deadline, of a second or more.
- The store retries a statement a few times. It does not wait for a server that is gone.
- A lease, a claim or a stream lives, and a queued plan waits, shorter or longer by at most a step of the server's clock.
`
