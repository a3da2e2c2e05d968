package memory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// Appends of one message of 300 bytes each, as docs/performance.md reports.
func BenchmarkAppend(b *testing.B) {
	for _, sessions := range []int{1, 1000} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("sessions=%d/writers=%d", sessions, writers), func(b *testing.B) {
				benchmarkAppend(b, sessions, writers)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, sessions, writers int) {
	store := New()
	ids := make([]repo.ID, sessions)
	for i := range ids {
		ids[i] = newSession(b, store)
	}
	content := strings.Repeat("x", 300)
	b.ReportAllocs()
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		all.Go(func() {
			for i := w; i < b.N; i += writers {
				if _, err := store.Sessions().Append(b.Context(), ids[i%sessions], user(content)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

func BenchmarkStream(b *testing.B) {
	store := New()
	id := newSession(b, store)
	for range 100 {
		batch := make([]repo.NewMessage, 1000)
		for i := range batch {
			batch[i] = user(strings.Repeat("x", 300))
		}
		if _, err := store.Sessions().Append(b.Context(), id, batch...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range store.Sessions().Messages(b.Context(), id, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100_000 {
			b.Fatalf("read %d messages", n)
		}
	}
}

// The cost of an append in a transaction does not depend on the session's length.
func BenchmarkAppendInTx(b *testing.B) {
	for _, messages := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			store := New()
			id := newSession(b, store)
			batch := make([]repo.NewMessage, 1000)
			for i := range batch {
				batch[i] = user("x")
			}
			for range messages / len(batch) {
				if _, err := store.Sessions().Append(b.Context(), id, batch...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				err := store.InTx(b.Context(), func(ctx context.Context, tx repo.Repositories) error {
					_, err := tx.Sessions().Append(ctx, id, user("x"))
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The first page of a list of sessions, unfiltered, and of one of a hundred actors.
func BenchmarkList(b *testing.B) {
	store := New()
	for i := range 100_000 {
		session := repo.NewSession{Namespace: fmt.Sprint("n", i%10), Actor: fmt.Sprint("a", i/10%100)}
		if _, err := store.Sessions().Create(b.Context(), session); err != nil {
			b.Fatal(err)
		}
	}
	for name, filter := range map[string]repo.SessionFilter{
		"namespace": {AnyOwner: true, Namespace: "n7"},
		"actor":     {AnyOwner: true, Namespace: "n7", Actor: "a42"},
	} {
		list := func(b *testing.B, repositories repo.Repositories) {
			b.ReportAllocs()
			for b.Loop() {
				if page, err := repositories.Sessions().List(b.Context(), filter, repo.Page{Limit: 20}); err != nil || len(page.Items) != 20 {
					b.Fatal(len(page.Items), err)
				}
			}
		}
		b.Run(name, func(b *testing.B) { list(b, store) })
		b.Run(name+" in a transaction", func(b *testing.B) {
			_ = store.InTx(b.Context(), func(_ context.Context, tx repo.Repositories) error {
				if _, err := tx.Sessions().Create(b.Context(), repo.NewSession{Namespace: filter.Namespace}); err != nil {
					b.Fatal(err)
				}
				list(b, tx)
				return nil
			})
		})
	}
}
