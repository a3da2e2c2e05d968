package bench

import (
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
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
