package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// The ways of following. The store elsewhere has a pool of its own, as in another
// process.
const (
	wayHere      = "in the writer's process"
	wayAnswered  = "in the writer's process, after the append"
	wayElsewhere = "elsewhere"
	wayLost      = "elsewhere, listener killed every second"
	wayPoll      = "a poll of 300 ms each"
	wayNotify    = "NOTIFY in the writing transaction"
	wayAlone     = "no followers"
)

const pollEvery = 300 * time.Millisecond

// follower follows a session from a sequence on.
type follower func(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error]

// viewing is what several workloads have in common: sessions, and a store elsewhere.
type viewing struct {
	l         *lab
	ids       []repo.ID
	followers int
	writers   int
	// rate is the number of appends offered in a second. Zero: as many as possible.
	rate      int
	elsewhere *agentstore.Store
	listens   sync.WaitGroup
	stop      context.CancelFunc
	waiting   sync.Map // of repo.ID: chan struct{}, of waits for a NOTIFY
	answered  sync.Map // of place: time.Time, for wayAnswered
}

// place is a message's session and sequence.
type place struct {
	session  repo.ID
	sequence int64
}

// follows measures from a message's time, which the server sets before the commit, until
// a follower has it; with wayAnswered, from when its append has returned.
func follows(sessions, followers, rate int, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		v, err := l.view(ctx, sessions, followers, rate)
		if err != nil {
			return nil, err
		}
		var cells []cell
		for _, way := range ways {
			cells = append(cells, cell{way: way, run: v.runner(way, true)})
		}
		cells[0].end = v.end
		return cells, nil
	}
}

// besideFollowers measures appends while others follow.
func besideFollowers(sessions, followers int, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		v, err := l.view(ctx, sessions, followers, 0)
		if err != nil {
			return nil, err
		}
		var cells []cell
		for _, way := range ways {
			cells = append(cells, cell{way: way, run: v.runner(way, false)})
		}
		cells[0].end = v.end
		return cells, nil
	}
}

func (l *lab) view(ctx context.Context, sessions, followers, rate int) (*viewing, error) {
	v := &viewing{l: l, followers: followers, writers: 16, rate: rate}
	if l.options.Quick {
		v.followers = min(v.followers, 20)
	}
	var err error
	if v.ids, err = l.sessions(ctx, sessions); err != nil {
		return nil, err
	}
	for _, id := range v.ids { // with which followers begin
		if _, err := l.store.Sessions().Append(ctx, id, batch(1, 1)...); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, l.pool.Config())
	if err != nil {
		return nil, err
	}
	if v.elsewhere, err = agentstore.OpenPool(ctx, pool, agentstore.Options{}); err != nil {
		pool.Close()
		return nil, err
	}
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	v.stop = cancel
	v.listens.Go(func() { v.listen(listening) })
	return v, nil
}

func (v *viewing) end() {
	v.stop()
	v.listens.Wait()
	_ = v.elsewhere.Close()
	v.elsewhere.Pool().Close()
}

// listen passes the notifications of wayNotify on.
func (v *viewing) listen(ctx context.Context) {
	conn, err := v.elsewhere.Pool().Acquire(ctx)
	if err != nil {
		return
	}
	own := conn.Hijack()
	defer own.Close(context.WithoutCancel(ctx))
	if _, err := own.Exec(ctx, "LISTEN agentstore_bench"); err != nil {
		return
	}
	for {
		n, err := own.WaitForNotification(ctx)
		if err != nil {
			return
		}
		if id, err := repo.ParseID(n.Payload); err == nil {
			if waiting, ok := v.waiting.Load(id); ok {
				close(waiting.(chan struct{}))
				v.waiting.CompareAndDelete(id, waiting)
			}
		}
	}
}

// follower returns how followers follow, or nil.
func (v *viewing) follower(way string) follower {
	byHand := func(wait func(ctx context.Context, id repo.ID) error) follower {
		return func(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
			return func(yield func(repo.Message, error) bool) {
				for {
					messages, err := v.elsewhere.Sessions().MessagesFrom(ctx, id, from, 100)
					if err == nil && len(messages) == 0 {
						err = wait(ctx, id)
					}
					if err != nil {
						yield(repo.Message{}, err)
						return
					}
					for _, m := range messages {
						if from = m.Sequence + 1; !yield(m, nil) {
							return
						}
					}
				}
			}
		}
	}
	switch way {
	case wayAlone:
		return nil
	case wayHere, wayAnswered:
		return v.l.store.Sessions().Follow
	case wayPoll:
		return byHand(func(ctx context.Context, _ repo.ID) error { return sleep(ctx, pollEvery/2+rand.N(pollEvery)) })
	case wayNotify:
		return byHand(func(ctx context.Context, id repo.ID) error {
			waiting, _ := v.waiting.LoadOrStore(id, make(chan struct{}))
			select {
			case <-waiting.(chan struct{}):
			case <-time.After(time.Second): // what came before it waited
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	}
	return v.elsewhere.Sessions().Follow
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runner appends for a time while followers follow. The latencies are the followers', or
// the appends'.
func (v *viewing) runner(way string, delivery bool) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		var all sync.WaitGroup
		parts := make([]sample, v.followers)
		begun := make(chan error, v.followers)
		var start atomic.Int64 // Unix, in microseconds; set before anything is appended
		if v.follower(way) != nil {
			for i := range v.followers {
				all.Go(func() { begun <- v.watch(following, way, v.ids[i%len(v.ids)], &parts[i], &start, begun) })
			}
			for range v.followers {
				if err := <-begun; err != nil {
					cancel()
					all.Wait()
					return sample{}, err
				}
			}
		}
		if way == wayLost {
			all.Go(func() { v.kill(following) })
		}
		start.Store(time.Now().UnixMicro())
		written, err := v.write(ctx, way, duration)
		_ = sleep(ctx, 2*pollEvery) // for what is under way
		cancel()
		all.Wait()
		v.answered.Clear()
		if err != nil || !delivery {
			return written, err
		}
		seen := sample{took: written.took}
		for _, part := range parts {
			seen.add(part)
		}
		return seen, nil
	}
}

// watch follows a session from its last message on, and says when it has that.
func (v *viewing) watch(ctx context.Context, way string, id repo.ID, seen *sample, start *atomic.Int64, begun chan<- error) error {
	session, err := v.elsewhere.Sessions().Get(ctx, id)
	if err != nil {
		return err
	}
	first := true
	for m, err := range v.follower(way)(ctx, id, session.MessageCount-1) {
		switch {
		case err != nil && first:
			return err
		case err != nil:
			return nil
		case first:
			first = false
			begun <- nil
		case m.CreatedAt.UnixMicro() >= start.Load():
			seen.operations++
			seen.rows++
			since := m.CreatedAt
			if way == wayAnswered {
				since = v.answer(place{m.SessionID, m.Sequence})
			}
			seen.latencies = append(seen.latencies, max(0, time.Since(since)))
		}
	}
	return errors.New("following ended")
}

// answer returns when the append of a message returned, or, for whichever of its follower and
// its writer asks first, the time now.
func (v *viewing) answer(at place) time.Time {
	first, _ := v.answered.LoadOrStore(at, time.Now())
	return first.(time.Time)
}

// kill ends the listener's connection every second.
func (v *viewing) kill(ctx context.Context) {
	for sleep(ctx, time.Second) == nil {
		_, _ = v.l.pool.Exec(ctx, killListeners)
	}
}

func (v *viewing) write(ctx context.Context, way string, duration time.Duration) (sample, error) {
	messages := batch(1, messageSize)
	add := appendTo(v.l.store)
	switch way {
	case wayNotify:
		add = v.appendNotifying
	case wayAnswered:
		add = v.appendAnswered
	}
	begin := time.Now()
	var turns sync.Mutex
	turn := 0
	return drive(ctx, v.writers, duration, func(ctx context.Context, _ int) (int, error) {
		if v.rate > 0 {
			turns.Lock()
			due := begin.Add(time.Duration(turn) * time.Second / time.Duration(v.rate))
			turn++
			turns.Unlock()
			if err := sleep(ctx, time.Until(due)); err != nil {
				return 0, err
			}
		}
		return 1, add(ctx, v.ids[rand.N(len(v.ids))], messages)
	})
}

func (v *viewing) appendAnswered(ctx context.Context, id repo.ID, messages []repo.NewMessage) error {
	appended, err := v.l.store.Sessions().Append(ctx, id, messages...)
	for _, m := range appended {
		v.answer(place{id, m.Sequence})
	}
	return err
}

// appendNotifying does what one would do by hand: it notifies in the transaction.
func (v *viewing) appendNotifying(ctx context.Context, id repo.ID, messages []repo.NewMessage) error {
	return v.l.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, id, messages...); err != nil {
			return err
		}
		own, ok := postgres.Tx(tx)
		if !ok {
			return fmt.Errorf("no transaction")
		}
		_, err := own.Exec(ctx, "SELECT pg_notify('agentstore_bench', $1)", id.String())
		return err
	})
}

// killListeners ends the connections that listen to the scratch schema's channel.
const killListeners = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE query = 'listen "agentstore_' || 'session_counters'::regclass::oid || '"'`
