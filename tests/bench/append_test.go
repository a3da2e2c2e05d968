package bench

import (
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func BenchmarkAppend(b *testing.B) {
	for _, sessions := range []int{1, 1000} {
		for _, writers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("sessions=%d/writers=%d", sessions, writers), func(b *testing.B) {
				store := pgtest.NewStore(b, agentstore.Options{})
				ids := newSessions(b, store, sessions)
				together(b, writers, func(i int) error {
					_, err := store.Sessions().Append(b.Context(), ids[i%sessions], message())
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			})
		}
	}
}

// An id of the caller's makes an append idempotent: it is looked up.
func BenchmarkAppendNamed(b *testing.B) {
	for _, named := range []bool{false, true} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("named=%v/writers=%d", named, writers), func(b *testing.B) {
				store := pgtest.NewStore(b, agentstore.Options{})
				id := newSessions(b, store, 1)[0]
				together(b, writers, func(int) error {
					m := message()
					if named {
						m.ID = repo.NewID()
					}
					_, err := store.Sessions().Append(b.Context(), id, m)
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			})
		}
	}
}

// A session that is named by its key costs what one that is named by its id does: the process
// knows the id after the first call.
func BenchmarkAppendByKey(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, keyed := range []bool{false, true} {
			b.Run(fmt.Sprintf("writers=%d/keyed=%v", writers, keyed), func(b *testing.B) {
				const sessions = 100
				store := pgtest.NewStore(b, agentstore.Options{})
				ids, keys := make([]repo.ID, sessions), make([]repo.SessionKey, sessions)
				for i := range keys {
					keys[i] = repo.SessionKey{Key: fmt.Sprint("conversation ", i)}
					session, err := store.Sessions().Create(b.Context(), repo.NewSession{Key: keys[i].Key})
					if err != nil {
						b.Fatal(err)
					}
					ids[i] = session.ID
				}
				together(b, writers, func(i int) (err error) {
					if keyed {
						_, err = bykey.Of(store.Sessions(), keys[i%sessions]).Append(b.Context(), message())
					} else {
						_, err = store.Sessions().Append(b.Context(), ids[i%sessions], message())
					}
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			})
		}
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	for _, size := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("messages=%d", size), func(b *testing.B) {
			store := pgtest.NewStore(b, agentstore.Options{})
			id := newSessions(b, store, 1)[0]
			batch := make([]repo.NewMessage, size)
			for i := range batch {
				batch[i] = message()
			}
			together(b, 1, func(int) error {
				_, err := store.Sessions().Append(b.Context(), id, batch...)
				return err
			})
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
