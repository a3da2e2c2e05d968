//go:build citus

package citus

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// each is how many writes there are of a kind by 8 writers or more.
const each = 512

// BenchmarkWrites compares writes on a node, by way of the coordinator and straight, with those of a schema that is the coordinator's
// own, all on one machine. They take turns. The metrics are the speeds of those on a node, of the speed of the other one.
//
//	go test -tags citus -run '^$' -bench Writes -benchtime 1x ./tests/citus
func BenchmarkWrites(b *testing.B) {
	all := start(b)
	plain := "plain_" + strings.ToLower(repo.NewID().String())
	migrator, err := schema.Open(b.Context(), all.coordinator, schema.Options{Schema: plain})
	if err == nil {
		_, err = migrator.Run(b.Context(), schema.TargetLatest())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { run(b, all.coordinator, "DROP SCHEMA "+plain+" CASCADE") })
	name := made(b, all.coordinator)
	migrator, err = schema.Open(b.Context(), all.coordinator, schema.Options{Schema: name})
	if err != nil {
		b.Fatal(err)
	}
	node, err := migrator.Node(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	straight := all.workers[0]
	if !hasHost(straight, node) {
		straight = all.workers[1]
	}
	stores := []*agentstore.Store{
		open(b, all.coordinator, agentstore.Options{Schema: plain, MaxConns: 8}),
		open(b, all.coordinator, agentstore.Options{Schema: name, MaxConns: 8}),
		open(b, straight, agentstore.Options{Schema: name, MaxConns: 8}),
	}
	for kind, prepare := range measured {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", kind, writers), func(b *testing.B) {
				writes := make([]func(writer int) error, len(stores))
				for i, store := range stores {
					writes[i] = prepare(b, store, writers)
				}
				took := make([]time.Duration, len(stores))
				amount := each * min(writers, 8) / 8
				for b.Loop() {
					for i, write := range writes {
						begin := time.Now()
						var running sync.WaitGroup
						for w := range writers {
							running.Go(func() {
								for range amount / writers {
									if err := write(w); err != nil {
										b.Error(err)
										return
									}
								}
							})
						}
						running.Wait()
						took[i] += time.Since(begin)
					}
				}
				b.ReportMetric(float64(amount)*float64(b.N)/took[0].Seconds(), "plain/s")
				b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "coordinator")
				b.ReportMetric(took[0].Seconds()/took[2].Seconds(), "straight")
			})
		}
	}
}

var measured = map[string]func(b *testing.B, store *agentstore.Store, writers int) func(writer int) error{
	"append": func(b *testing.B, store *agentstore.Store, writers int) func(int) error {
		ids := make([]repo.ID, writers)
		for i := range ids {
			ids[i] = pgtest.NewSession(b, store)
		}
		return func(w int) error {
			_, err := store.Sessions().Append(b.Context(), ids[w], oneMessage())
			return err
		}
	},
	"turn": func(b *testing.B, store *agentstore.Store, writers int) func(int) error {
		ids := make([]repo.ID, writers)
		for i := range ids {
			ids[i] = pgtest.NewSession(b, store)
		}
		return func(w int) error {
			_, err := store.Sessions().AppendTurn(b.Context(), repo.Turn{
				SessionID: ids[w], Messages: []repo.NewMessage{oneMessage()},
				State: []repo.StateChange{{Scope: scopeOf(ids[w]), Key: "key", Value: []byte("1")}},
			})
			return err
		}
	},
	"part": func(b *testing.B, store *agentstore.Store, writers int) func(int) error {
		streams := make([]repo.Stream, writers)
		for i := range streams {
			var err error
			if streams[i], err = store.Streams().Open(b.Context(), repo.NewStream{Key: repo.NewID().String(), Owner: "owner"}); err != nil {
				b.Fatal(err)
			}
		}
		return func(w int) (err error) {
			streams[w].Next, err = store.Streams().Append(b.Context(), streams[w], []byte("part"))
			return err
		}
	},
	"lease": func(b *testing.B, store *agentstore.Store, writers int) func(int) error {
		keys := make([]string, writers)
		for i := range keys {
			keys[i] = repo.NewID().String()
		}
		return func(w int) error {
			lease, err := store.Leases().Acquire(b.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: keys[w]}, Owner: "owner", TTL: time.Minute})
			if err != nil {
				return err
			}
			return store.Leases().Release(b.Context(), lease)
		}
	},
	// A plan is made.
	"use": func(b *testing.B, store *agentstore.Store, _ int) func(int) error {
		action := newAction(b, store, repo.NewID())
		return func(int) error {
			_, err := store.Plans().Use(b.Context(), action, repo.UseAction{})
			return err
		}
	},
	// A plan that was made before is claimed: there are as many as one round takes.
	"claim": func(b *testing.B, store *agentstore.Store, _ int) func(int) error {
		action := newAction(b, store, repo.NewID())
		var made sync.WaitGroup
		for range 16 {
			made.Go(func() {
				for range each / 16 {
					if _, err := store.Plans().Use(b.Context(), action, repo.UseAction{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		made.Wait()
		return func(int) error {
			claimed, err := store.Plans().Claim(b.Context(), repo.Claim{Owner: "owner", Actions: []string{action}})
			if err == nil && len(claimed) == 0 {
				err = errors.New("nothing was claimed")
			}
			return err
		}
	},
}
