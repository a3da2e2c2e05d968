// Package repotest is the conformance suite of package repo. It is for authors of
// implementations of [repo.Store] and of wrappers around one. The stores of
// agentstore pass it.
//
// Use it in a test:
//
//	func TestStore(t *testing.T) {
//		repotest.Run(t, func(t *testing.T) repo.Store {
//			store := mystore.Open(t.TempDir())
//			t.Cleanup(func() { store.Close() })
//			return store
//		})
//	}
//
// Every subtest opens a store and runs in parallel. Stores may share a database:
// no subtest relies on exclusive use. [RunRepositories] tests repositories that
// are bound to a transaction. Where something has to expire, the suite waits; [Elapse]
// and [Bubbles] spare it that.
package repotest
