package memory

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// Appends of one message of 300 bytes each, which is what docs/performance.md
// reports.
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
		for _, err := range store.Sessions().Stream(b.Context(), id, 0) {
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
