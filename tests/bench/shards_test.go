package bench

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const benchShards = 16

// oneAndMany are a store of one schema and one of shards, on one server. What is measured of both takes turns, so that what
// else the machine does is the same for both.
type oneAndMany struct {
	urls   [2]string
	shards [2]int
	stores [2]*agentstore.Store
}

func newOneAndMany(b *testing.B, maxConns int) *oneAndMany {
	b.Helper()
	both := &oneAndMany{shards: [2]int{0, benchShards}}
	for way := range both.stores {
		both.urls[way] = pgtest.NewEmptyDatabase(b)
		both.stores[way] = pgtest.OpenStore(b, both.urls[way], agentstore.Options{Shards: both.shards[way], Migrate: true, MaxConns: maxConns})
	}
	return both
}

// The ratio is that of the times, and the memory that of the servers' processes after the last round.
func BenchmarkAppendInShards(b *testing.B) {
	const sessions, round = 1000, 1000
	both := newOneAndMany(b, 8)
	for _, writers := range []int{1, 64} {
		for _, tenants := range []int{1, 100} {
			b.Run(fmt.Sprintf("writers=%d/tenants=%d", writers, tenants), func(b *testing.B) {
				var views [2][]repo.Store
				var ids [2][]repo.ID
				for way, store := range both.stores {
					for i := range tenants {
						view := store.In(fmt.Sprint("tenant ", i))
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
				b.StopTimer()
				b.ReportMetric(float64(took[0])/float64(took[1]), "speed/one")
				one, many := backend(b, both.stores[0].Pool()), backend(b, both.stores[1].Pool())
				b.ReportMetric(one.private/1024, "one-MiB")
				b.ReportMetric(many.private/1024, "shards-MiB")
				b.ReportMetric(many.private/one.private, "memory/one")
				b.ReportMetric(many.contexts/one.contexts, "contexts/one")
			})
		}
	}
}

type backendMemory struct {
	private  float64 // kB that are the process's own
	contexts float64 // bytes, as the server counts them
}

var privateLines = regexp.MustCompile(`(?m)^Private_\w+:\s+(\d+) kB`)

// backend returns the largest memory of a pool's processes, which are on this machine.
func backend(b *testing.B, pool *pgxpool.Pool) (largest backendMemory) {
	b.Helper()
	for _, conn := range pool.AcquireAllIdle(b.Context()) {
		var pid int
		var contexts float64
		err := conn.QueryRow(b.Context(), `SELECT pg_backend_pid(), sum(total_bytes)::float8 FROM pg_backend_memory_contexts`).Scan(&pid, &contexts)
		conn.Release()
		if err != nil {
			b.Fatal(err)
		}
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			b.Skip("the server's processes cannot be seen: ", err)
		}
		private := 0.0
		for _, line := range privateLines.FindAllStringSubmatch(string(rollup), -1) {
			kB, _ := strconv.ParseFloat(line[1], 64)
			private += kB
		}
		largest = backendMemory{max(largest.private, private), max(largest.contexts, contexts)}
	}
	return largest
}

// A tenant that is new costs what it costs without shards, and its shard no relation.
func BenchmarkNewTenants(b *testing.B) {
	both := newOneAndMany(b, 4)
	var took [2]time.Duration
	b.ResetTimer()
	for i := range b.N {
		for turn := range 2 {
			way := (turn + i) % 2
			view, begin := both.stores[way].In(fmt.Sprint("tenant ", i)), time.Now()
			session, err := view.Sessions().Create(b.Context(), repo.NewSession{})
			if err == nil {
				_, err = view.Sessions().Append(b.Context(), session.ID, message())
			}
			if err != nil {
				b.Fatal(err)
			}
			took[way] += time.Since(begin)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(took[1])/float64(took[0]), "time/one")
	relations := `SELECT count(*)::float8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 'agentstore\_%' OR n.nspname = 'public'`
	b.ReportMetric(pgtest.Value[float64](b, both.stores[1].Pool(), relations)/benchShards, "relations/shard")
}

func BenchmarkOpenShards(b *testing.B) {
	both := newOneAndMany(b, 0)
	for _, store := range both.stores {
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
	var took [2]time.Duration
	b.ResetTimer()
	for i := range b.N {
		for turn := range 2 {
			way := (turn + i) % 2
			begin := time.Now()
			store, err := agentstore.Open(b.Context(), both.urls[way], agentstore.Options{Shards: both.shards[way]})
			if err != nil {
				b.Fatal(err)
			}
			took[way] += time.Since(begin)
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "time/one")
	b.ReportMetric(took[1].Seconds()*1000/float64(b.N), "ms")
}

// The floor of groups in shards: the same 64 appends as one statement in one schema, as 16 statements in one transaction, and in
// 16 of their own, each written by hand and prepared, on two connections.
func BenchmarkShardsByHand(b *testing.B) {
	const group, writers = 64, 2
	store := pgtest.OpenStore(b, pgtest.NewEmptyDatabase(b), agentstore.Options{Shards: benchShards, Migrate: true, MaxConns: writers})
	sql := func(in string) string {
		return fmt.Sprintf(`WITH c AS (
				UPDATE %[1]s.session_counters SET next_sequence = next_sequence + 1, updated_at = now() WHERE session_id = ANY($1::uuid[]) RETURNING session_id, next_sequence
			) INSERT INTO %[1]s.messages (session_id, sequence, id, role, content) SELECT session_id, next_sequence - 1, gen_random_uuid(), 'user', 'message' FROM c`, in)
	}
	type statement struct {
		sql string
		ids [][16]byte
	}
	made := func(in string, sessions int) statement {
		return statement{sql(in), pgtest.Value[[][16]byte](b, store.Pool(), fmt.Sprintf(`WITH s AS (INSERT INTO %[1]s.sessions (id) SELECT gen_random_uuid() FROM generate_series(1, $1) RETURNING id),
			c AS (INSERT INTO %[1]s.session_counters (session_id) SELECT id FROM s RETURNING session_id) SELECT array_agg(session_id) FROM c`, in), sessions)}
	}
	// Each writer has sessions of its own: all of them in the first shard, or spread over all.
	var one, spread [writers][]statement
	names := schema.Shards("", benchShards)
	for w := range writers {
		one[w] = []statement{made(names[0], group)}
		for _, name := range names {
			spread[w] = append(spread[w], made(name, group/benchShards))
		}
	}
	ways := []struct {
		of          [writers][]statement
		transaction int // how many statements it has
	}{{one, 1}, {spread, benchShards}, {spread, 1}}
	took := make([]time.Duration, len(ways))
	for range b.N {
		for i, way := range ways {
			begin := time.Now()
			var all sync.WaitGroup
			for _, statements := range way.of {
				all.Go(func() {
					for together := range slices.Chunk(statements, way.transaction) {
						var batch pgx.Batch
						for _, s := range together {
							batch.Queue(s.sql, s.ids)
						}
						if err := store.Pool().SendBatch(b.Context(), &batch).Close(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			took[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "a-transaction/one")
	b.ReportMetric(float64(took[0])/float64(took[2]), "transactions/one")
	b.ReportMetric(float64(b.N*writers*group)/took[0].Seconds(), "one-appends/s")
}
