package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const benchShards = 16

// oneAndMany are a store of eight connections, and a spread over 16 schemas with two connections each, on one server. What is
// measured of both takes turns, so that what else the machine does is the same for both.
type oneAndMany [2]func(ctx context.Context, namespace string) (repo.Store, error)

func newOneAndMany(b *testing.B) oneAndMany {
	b.Helper()
	one := pgtest.NewStore(b, agentstore.Options{MaxConns: 8})
	databaseURL := pgtest.NewEmptyDatabase(b)
	stores := make([]*agentstore.Store, benchShards)
	for i := range stores {
		stores[i] = pgtest.OpenStore(b, databaseURL, agentstore.Options{Schema: fmt.Sprint("shard_", i), MaxConns: 2, Migrate: true})
	}
	spread, err := agentstore.NewSpread(b.Context(), stores...)
	if err != nil {
		b.Fatal(err)
	}
	return oneAndMany{func(_ context.Context, namespace string) (repo.Store, error) { return one.In(namespace), nil }, spread.In}
}

// The ratio is that of the times.
func BenchmarkAppendInShards(b *testing.B) {
	const sessions, round = 1000, 1000
	both := newOneAndMany(b)
	for _, writers := range []int{1, 64} {
		for _, tenants := range []int{1, 100} {
			b.Run(fmt.Sprintf("writers=%d/tenants=%d", writers, tenants), func(b *testing.B) {
				var views [2][]repo.Store
				var ids [2][]repo.ID
				for way, in := range both {
					for i := range tenants {
						view, err := in(b.Context(), fmt.Sprint("tenant ", i))
						if err != nil {
							b.Fatal(err)
						}
						for _, id := range newSessions(b, view, sessions/tenants) {
							views[way], ids[way] = append(views[way], view), append(ids[way], id)
						}
					}
				}
				var took [2]time.Duration
				b.ResetTimer()
				for done := 0; done < b.N; done += round {
					for turn := range 2 {
						way := (turn + done/round) % 2
						begin := time.Now()
						var all sync.WaitGroup
						for w := range writers {
							all.Go(func() {
								for i := w; i < round; i += writers {
									of := i * 37 % sessions // so that one after the other is of another tenant
									if _, err := views[way][of].Sessions().Append(b.Context(), ids[way][of], message()); err != nil {
										b.Error(err)
										return
									}
								}
							})
						}
						all.Wait()
						took[way] += time.Since(begin)
					}
				}
				b.ReportMetric(float64(took[0])/float64(took[1]), "speed/one")
			})
		}
	}
}

// A tenant that is new is placed.
func BenchmarkNewTenants(b *testing.B) {
	both := newOneAndMany(b)
	var took [2]time.Duration
	b.ResetTimer()
	for i := range b.N {
		for turn := range 2 {
			way, begin := (turn+i)%2, time.Now()
			view, err := both[way](b.Context(), fmt.Sprint("tenant ", i))
			if err == nil {
				_, err = view.Sessions().Append(b.Context(), pgtest.NewSession(b, view), message())
			}
			if err != nil {
				b.Fatal(err)
			}
			took[way] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "time/one")
}
