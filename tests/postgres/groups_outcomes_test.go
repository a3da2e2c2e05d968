package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// tryable: do is called with a context that ends some time; written says whether it was written, per a fresh look.
type tryable struct {
	name    string
	prepare func(ctx context.Context) (do func(ctx context.Context) error, written func(ctx context.Context) bool)
}

// prepared prepares again what was interrupted because a backend was killed.
func (o tryable) prepared() (do func(ctx context.Context) error, written func(ctx context.Context) bool) {
	for attempt := range 20 {
		func() {
			defer func() {
				if p := recover(); p != nil && attempt == 19 {
					panic(p)
				}
			}()
			do, written = o.prepare(context.Background())
		}()
		if do != nil {
			break
		}
	}
	return do, written
}

func writesToTry(t *testing.T, store repo.Store) []tryable {
	bg := context.Background()
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("prepare: %v", err))
		}
	}
	retry := func(f func() error) {
		err := f()
		for end := await.End(t); time.Now().Before(end); err = f() {
			if passes := errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrContention); !passes {
				break
			}
			time.Sleep(time.Millisecond) // pace: others go on
		}
		must(err)
	}
	// found reports whether something is there.
	found := func(get func() error) (found bool) {
		retry(func() error {
			err := get()
			if found = err == nil; errors.Is(err, repo.ErrNotFound) {
				return nil
			}
			return err
		})
		return found
	}
	session := func() repo.ID {
		id := repo.NewID()
		retry(func() error { _, err := store.Sessions().Create(bg, repo.NewSession{ID: id}); return err })
		return id
	}
	get := func(id repo.ID) (s repo.Session) {
		retry(func() (err error) { s, err = store.Sessions().Get(bg, id); return err })
		return s
	}
	exists := func(id repo.ID) bool {
		return found(func() error { _, err := store.Sessions().Get(bg, id); return err })
	}
	retry(func() error {
		_, err := store.Actions().Create(bg, repo.NewAction{Name: "adv", ActionDefinition: repo.ActionDefinition{Reusable: true}})
		if errors.Is(err, repo.ErrConflict) {
			return nil
		}
		return err
	})
	use := func(use repo.UseAction) (plan repo.Plan) {
		use.Key = repo.NewID().String()
		retry(func() (err error) { plan, err = store.Plans().Use(bg, "adv", use); return err })
		return plan
	}
	usePlan := func() repo.ID { return use(repo.UseAction{}).ID }
	plansIn := func(namespace string) (count int) {
		retry(func() error {
			page, err := store.Plans().List(bg, repo.PlanFilter{Namespace: namespace}, repo.Page{})
			count = len(page.Items)
			return err
		})
		return count
	}
	getPlan := func(id repo.ID) (p repo.Plan) {
		found(func() (err error) { p, err = store.Plans().Get(bg, id); return err })
		return p
	}
	leases := func(owner string) (l []repo.Lease) {
		retry(func() error {
			p, err := store.Leases().List(bg, repo.LeaseFilter{Owner: owner}, repo.Page{})
			l = p.Items
			return err
		})
		return l
	}
	message := func() repo.NewMessage { return repo.NewMessage{Role: repo.RoleUser, Content: "x"} }
	stream := func() (s repo.Stream) {
		retry(func() (err error) {
			s, err = store.Streams().Open(bg, repo.NewStream{Key: repo.NewID().String(), Owner: "o", TTL: time.Hour})
			return err
		})
		return s
	}
	getStream := func(key string) (s repo.Stream, is bool) {
		is = found(func() (err error) { s, err = store.Streams().Get(bg, key); return err })
		return s, is
	}
	stateOf := func(scope repo.Scope, key string) bool {
		return found(func() error { _, err := store.State().Get(bg, scope, key); return err })
	}
	shared := repo.Scope{Name: "adv"}
	hot := session() // contended
	type do = func(context.Context) error
	type look = func(context.Context) bool
	ops := []tryable{
		{"create", func(context.Context) (do, look) {
			id := repo.NewID()
			return func(ctx context.Context) error {
				_, err := store.Sessions().Create(ctx, repo.NewSession{ID: id})
				return err
			}, func(context.Context) bool { return exists(id) }
		}},
		{"create none", func(context.Context) (do, look) {
			key := repo.SessionKey{Namespace: "n", Key: repo.NewID().String()}
			return func(ctx context.Context) error {
					_, err := store.Sessions().Create(ctx, repo.NewSession{Namespace: key.Namespace, Key: key.Key, Existing: repo.ExistingNone})
					return err
				}, func(context.Context) bool {
					return found(func() error { _, err := store.Sessions().Find(bg, key); return err })
				}
		}},
		{"update", func(context.Context) (do, look) {
			id := session()
			return func(ctx context.Context) error {
				_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"a":1}`)})
				return err
			}, func(context.Context) bool { return get(id).Version > 1 }
		}},
		{"update hot", func(context.Context) (do, look) {
			key := repo.NewID().String()
			return func(ctx context.Context) error {
				_, err := store.Sessions().Update(ctx, hot, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"` + key + `":1}`)})
				return err
			}, func(context.Context) bool { return bytes.Contains(get(hot).Metadata, []byte(key)) }
		}},
		{"usage", func(context.Context) (do, look) {
			id := session()
			return func(ctx context.Context) error {
					_, err := store.Sessions().AddUsage(ctx, id, repo.NewUsage{Cost: 1})
					return err
				}, func(context.Context) bool {
					c := get(id).Usage.Cost
					if c > 1 {
						t.Error("counted twice")
					}
					return c > 0
				}
		}},
		{"delete", func(context.Context) (do, look) {
			id := session()
			return func(ctx context.Context) error { _, err := store.Sessions().Delete(ctx, id); return err },
				func(context.Context) bool { return !exists(id) }
		}},
		{"append hot", func(context.Context) (do, look) {
			m := message()
			m.ID = repo.NewID()
			return func(ctx context.Context) error { _, err := store.Sessions().Append(ctx, hot, m); return err },
				func(context.Context) bool {
					return found(func() error { _, err := store.Sessions().Message(bg, hot, m.ID); return err })
				}
		}},
		{"appendAt", func(context.Context) (do, look) {
			id := session()
			return func(ctx context.Context) error {
					_, err := appendAt(ctx, store.Sessions(), id, 0, message(), message())
					return err
				}, func(context.Context) bool {
					n := get(id).MessageCount
					if n != 0 && n != 2 {
						t.Error("appendAt", n)
					}
					return n > 0
				}
		}},
		{"turn", func(context.Context) (do, look) {
			id := session()
			k := repo.NewID().String()
			return func(ctx context.Context) error {
					_, err := store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, ID: repo.NewID().String(), Messages: []repo.NewMessage{message()}, State: []repo.StateChange{{Scope: shared, Key: k, Value: json.RawMessage("1")}}, Usage: &repo.NewUsage{Cost: 1}})
					return err
				}, func(context.Context) bool {
					s := get(id)
					if int64(s.Usage.Cost) != s.MessageCount || s.MessageCount > 1 || stateOf(shared, k) != (s.MessageCount == 1) {
						t.Error("turn torn", s.Usage.Cost, s.MessageCount)
					}
					return s.MessageCount > 0
				}
		}},
		{"state", func(context.Context) (do, look) {
			k := repo.NewID().String()
			return func(ctx context.Context) error {
				_, err := store.State().Change(ctx, []repo.StateChange{{Scope: shared, Key: k, Value: json.RawMessage("1")}})
				return err
			}, func(context.Context) bool { return stateOf(shared, k) }
		}},
		{"acquire", func(context.Context) (do, look) {
			k, o := repo.LeaseKey{Kind: "k", Name: repo.NewID().String()}, repo.NewID().String()
			return func(ctx context.Context) error {
				_, err := store.Leases().Acquire(ctx, repo.NewLease{Key: k, Owner: o, TTL: time.Hour})
				return err
			}, func(context.Context) bool { return len(leases(o)) > 0 }
		}},
		{"release", func(context.Context) (do, look) {
			k, o := repo.LeaseKey{Kind: "k", Name: repo.NewID().String()}, repo.NewID().String()
			var l repo.Lease
			retry(func() (err error) {
				l, err = store.Leases().Acquire(bg, repo.NewLease{Key: k, Owner: o, TTL: time.Hour})
				return err
			})
			return func(ctx context.Context) error { return store.Leases().Release(ctx, l) },
				func(context.Context) bool { return len(leases(o)) == 0 }
		}},
		{"release all", func(context.Context) (do, look) {
			k, o := repo.LeaseKey{Kind: "k", Name: repo.NewID().String()}, repo.NewID().String()
			retry(func() (err error) {
				_, err = store.Leases().Acquire(bg, repo.NewLease{Key: k, Owner: o, TTL: time.Hour})
				return err
			})
			return func(ctx context.Context) error { _, err := store.Leases().ReleaseAll(ctx, o); return err },
				func(context.Context) bool { return len(leases(o)) == 0 }
		}},
		{"stream open", func(context.Context) (do, look) {
			k := repo.NewID().String()
			return func(ctx context.Context) error {
				_, err := store.Streams().Open(ctx, repo.NewStream{Key: k, Owner: "o", TTL: time.Hour})
				return err
			}, func(context.Context) bool { _, is := getStream(k); return is }
		}},
		{"stream append", func(context.Context) (do, look) {
			s := stream()
			return func(ctx context.Context) error {
					_, err := store.Streams().Append(ctx, s, []byte("a"), []byte("b"))
					return err
				}, func(context.Context) bool {
					x, _ := getStream(s.Key)
					if x.Next != 0 && x.Next != 2 {
						t.Error("stream", x.Next)
					}
					return x.Next > 0
				}
		}},
		{"stream finish", func(context.Context) (do, look) {
			s := stream()
			return func(ctx context.Context) error { return store.Streams().Finish(ctx, s) },
				func(context.Context) bool { x, _ := getStream(s.Key); return x.Status != repo.StreamOpen }
		}},
		{"use", func(context.Context) (do, look) {
			given := repo.UseAction{Namespace: repo.NewID().String(), Key: []string{"", "k"}[rand.IntN(2)]}
			if rand.IntN(2) == 0 {
				given.SessionID = session()
			}
			if rand.IntN(2) == 0 {
				given.ParentID = usePlan()
			}
			return func(ctx context.Context) error {
					_, err := store.Plans().Use(ctx, "adv", given)
					return err
				}, func(context.Context) bool {
					n := plansIn(given.Namespace)
					if n > 1 {
						t.Error("used twice", given.Key)
					}
					return n > 0
				}
		}},
		{"transition", func(context.Context) (do, look) {
			id := usePlan()
			return func(ctx context.Context) error {
				_, err := store.Plans().Transition(ctx, id, repo.TransitionStart, repo.Cause{})
				return err
			}, func(context.Context) bool { return getPlan(id).Version > 1 }
		}},
		{"cancel", func(context.Context) (do, look) {
			id := usePlan()
			return func(ctx context.Context) error {
				_, err := store.Plans().Transition(ctx, id, repo.TransitionCancel, repo.Cause{Reason: "r"})
				return err
			}, func(context.Context) bool { return getPlan(id).Version > 1 }
		}},
		{"claim", func(context.Context) (do, look) {
			ns, o := repo.NewID().String(), repo.NewID().String()
			use(repo.UseAction{Namespace: ns})
			return func(ctx context.Context) error {
				_, err := store.Plans().Claim(ctx, repo.Claim{Owner: o, Namespaces: []string{ns}, Wait: rand.IntN(2) == 0, TTL: time.Hour})
				return err
			}, func(context.Context) bool { return len(leases(o)) > 0 }
		}},
		{"link", func(context.Context) (do, look) {
			id, p := session(), usePlan()
			return func(ctx context.Context) error { return store.Plans().Link(ctx, id, p) },
				func(context.Context) bool { return len(get(id).Plans) > 0 }
		}},
		{"intx", func(context.Context) (do, look) {
			id := session()
			return func(ctx context.Context) error {
					return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
						for range 2 {
							if _, err := tx.Sessions().Append(ctx, id, message()); err != nil {
								return err
							}
						}
						return nil
					})
				}, func(context.Context) bool {
					n := get(id).MessageCount
					if n != 0 && n != 2 {
						t.Error("intx", n)
					}
					return n > 0
				}
		}},
		{"import", func(context.Context) (do, look) {
			id := session()
			var b bytes.Buffer
			retry(func() error { b.Reset(); return store.Sessions().Export(bg, id, &b) })
			found(func() error { _, err := store.Sessions().Delete(bg, id); return err })
			return func(ctx context.Context) error {
					_, err := store.Sessions().Import(ctx, &b, true)
					return err
				},
				func(context.Context) bool { return exists(id) }
		}},
		{"action", func(context.Context) (do, look) {
			name := "a" + repo.NewID().String()
			return func(ctx context.Context) error {
					_, err := store.Actions().Create(ctx, repo.NewAction{Name: name})
					return err
				}, func(context.Context) bool {
					return found(func() error { _, err := store.Actions().Get(bg, name); return err })
				}
		}},
	}
	return ops
}

// Whichever write is left by its caller at a random time, while backends are terminated or not:
// an error other than ErrUnknownOutcome means that nothing was written, none that it was, and
// what belongs together is written together.
// Guarantee: Faults: Only `ErrUnknownOutcome` leaves open whether the call wrote.
func TestOutcomesAreTrue(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"contexts end": false, "and backends": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.WithParameter(pgtest.NewDatabase(t), "application_name", t.Name())
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 8})
			tryOutcomes(t, store, databaseURL, kill)
		})
	}
}

func tryOutcomes(t *testing.T, store *agentstore.Store, databaseURL string, kill bool) {
	t.Helper()
	ops := writesToTry(t, store)
	kills := make(chan struct{}) // at most one for each write, so that however slow all is, some go through
	var killing sync.WaitGroup
	if kill {
		conn := pgtest.Connect(t, pgtest.WithParameter(databaseURL, "application_name", "killer"))
		killing.Go(func() {
			for range kills {
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // pace: the write gets anywhere
				_, _ = conn.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+t.Name()+"' AND state = 'active' ORDER BY random() LIMIT 1")
			}
		})
	}
	var counts [4]atomic.Int64
	var length atomic.Int64 // of a write here and now, by which callers leave in the middle of one
	length.Store(int64(20 * time.Millisecond))
	var workers sync.WaitGroup
	for range 12 {
		workers.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%v", p)
				}
			}()
			for range pgtest.Choose(400, 15) {
				op := ops[rand.IntN(len(ops))]
				do, written := op.prepared()
				ctx, cancel := context.WithCancel(context.Background())
				select {
				case kills <- struct{}{}:
				default:
				}
				// pace: the caller leaves at any time, or has the answer before
				timer := time.AfterFunc(time.Duration(float64(4*length.Load())*rand.Float64()*rand.Float64()), cancel)
				started := time.Now()
				err := do(ctx)
				timer.Stop()
				cancelled := ctx.Err() != nil
				cancel()
				if !errors.Is(err, repo.ErrUnknownOutcome) {
					if err != nil && kill {
						time.Sleep(50 * time.Millisecond) // pace: what the server still does, it may do
					}
					is := written(context.Background())
					if is != (err == nil) {
						t.Errorf("%s: written %t, error %v (cancelled %t)", op.name, is, err, cancelled)
					}
					if err != nil && countSentinels(err) != 1 && !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", op.name, err)
					}
					if err != nil && !cancelled && !kill {
						t.Errorf("%s: not cancelled: %v", op.name, err)
					}
				}
				switch {
				case err == nil:
					counts[0].Add(1)
					length.Store(int64(time.Since(started)))
				case errors.Is(err, repo.ErrUnknownOutcome):
					counts[1].Add(1)
				case errors.Is(err, context.Canceled):
					counts[2].Add(1)
					length.Add(length.Load() / 8)
				default:
					counts[3].Add(1)
				}
			}
		})
	}
	workers.Wait()
	close(kills)
	killing.Wait()
	t.Log("ok, unknown, cancelled, other", counts[0].Load(), counts[1].Load(), counts[2].Load(), counts[3].Load())
	pgtest.CheckReturned(t, store.Pool())
}

func countSentinels(err error) (count int) {
	for _, sentinel := range repo.Sentinels() {
		if errors.Is(err, sentinel) {
			count++
		}
	}
	return count
}
