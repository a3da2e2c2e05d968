package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// delay is a network between store and server that can hold back what the store sends
// next. The store sees its connection end; the server receives the data when it is
// released.
type delay struct {
	t             *testing.T
	listener      net.Listener
	server        string
	announcements pgtest.Announcements
	armed         atomic.Bool
	kept          chan struct{} // is closed when something is
	release       chan struct{}
	running       sync.WaitGroup
}

// newDelay starts one before a database, and returns the URL that leads through it.
func newDelay(t *testing.T, databaseURL string) (d *delay, through string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d = &delay{t: t, listener: listener, server: u.Host, kept: make(chan struct{}), release: make(chan struct{})}
	d.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.running.Go(func() { d.carry(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(d.running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	u.Host = listener.Addr().String()
	return d, u.String()
}

// arm has the next thing that a caller sends kept until release is closed, and the
// connection broken.
func (d *delay) arm(store *agentstore.Store) {
	await.For(d.t, "nothing is under way", func() bool { return store.Pool().Stat().AcquiredConns() == 0 })
	d.armed.Store(true)
}

func (d *delay) carry(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	dialled, err := net.Dial("tcp", d.server)
	if err != nil {
		return
	}
	server := dialled.(*net.TCPConn)
	defer func() { _ = server.Close() }()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	defer back.Wait()
	for buffer := make([]byte, 1<<16); ; {
		n, err := client.Read(buffer)
		if n > 0 {
			if n == 16 && binary.BigEndian.Uint32(buffer[4:]) == cancelRequest {
				_ = server.CloseWrite() // it could arrive as late, and undo what a test is about
				return
			}
			byItself := d.announcements.Sent(buffer[:n]) || pgtest.IsPing(buffer[:n])
			if !byItself && d.armed.CompareAndSwap(true, false) {
				_ = client.Close()
				close(d.kept)
				<-d.release
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = server.CloseWrite()
			return
		}
	}
}

// Progress of a plan that is not processing yet is sent, its connection breaks, and
// it is sent again. The refusal of the second attempt is not a conflict, because the
// first may arrive when the plan is processing. The same holds for a link to
// something that does not exist yet.
func TestFirstAttemptOfPlansArrivesLate(t *testing.T) {
	t.Parallel()
	session := repo.NewID()
	step := int64(7)
	for name, test := range map[string]struct {
		write   func(store repo.Repositories, f family) error
		then    func(store repo.Repositories, f family) error
		arrived func(plan repo.Plan, session repo.Session) bool
	}{
		"progress": {
			func(store repo.Repositories, f family) error {
				_, err := store.Plans().Progress(t.Context(), f.root, repo.Progress{CompletedStep: &step})
				return err
			},
			func(store repo.Repositories, f family) error {
				_, err := store.Plans().Transition(t.Context(), f.root, repo.TransitionStart, repo.Cause{})
				return err
			},
			func(plan repo.Plan, _ repo.Session) bool { return plan.LastCompletedStep != nil },
		},
		"link": {
			func(store repo.Repositories, f family) error { return store.Plans().Link(t.Context(), session, f.root) },
			func(store repo.Repositories, f family) error {
				_, err := store.Sessions().Create(t.Context(), repo.NewSession{ID: session})
				return err
			},
			func(_ repo.Plan, session repo.Session) bool { return len(session.Plans) == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.NewDatabase(t)
			network, through := newDelay(t, direct)
			store, other := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
			f := newFamily(t, other)
			_ = test.write(store, f) // prepares the statement
			network.arm(store)
			err := test.write(store, f)
			if network.armed.Load() {
				t.Fatal("nothing was kept")
			}
			if err := test.then(other, f); err != nil {
				t.Fatal(err)
			}
			close(network.release)
			await.For(t, "the first attempt is written", func() bool {
				plan, err := other.Plans().Get(t.Context(), f.root)
				if err != nil {
					t.Fatal(err)
				}
				linked, _ := other.Sessions().Get(t.Context(), session) // the zero value if there is none
				return test.arrived(plan, linked)
			})
			if !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Fatalf("%v, but it is written; want %v", err, repo.ErrUnknownOutcome)
			}
		})
	}
}

// The owner of a pool closes it when the answer to an attempt was lost. That no other
// attempt can be made does not mean that nothing was written.
func TestClosedPoolAfterLostAnswer(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, store repo.Repositories, id repo.ID) error{
		"append": func(ctx context.Context, store repo.Repositories, id repo.ID) error {
			_, err := store.Sessions().Append(ctx, id, user("once"))
			return err
		},
		"create": func(ctx context.Context, store repo.Repositories, _ repo.ID) error {
			_, err := store.Sessions().Create(ctx, repo.NewSession{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network, through := newDelay(t, pgtest.NewDatabase(t))
			defer close(network.release)
			// One connection, so that the attempt needs no other, which it would begin.
			pool := pgtest.NewPool(t, through, func(c *pgxpool.Config) { c.MaxConns = 1 })
			store := pgtest.OpenPool(t, pool, agentstore.Options{})
			id := pgtest.NewSession(t, store)
			if err := write(t.Context(), store, id); err != nil { // prepares the statement
				t.Fatal(err)
			}
			network.arm(store)
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				<-network.kept
				pool.Close()
			}()
			// (The message is stored if the second attempt was faster than Close.)
			if err := write(t.Context(), store, id); err != nil && (!errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrClosed)) {
				t.Errorf("%v, want %v", err, repo.ErrUnknownOutcome)
			}
			<-closed
		})
	}
}

// An append at a sequence that does not exist yet is sent, its connection breaks, and
// it is sent again. The second attempt finds too few messages. That is not a
// conflict, because the first may arrive when there are enough. This holds however
// the driver sends statements: in some modes it reports that a connection that ended
// while it waited for an answer was closed before.
// Guarantee: Faults: A reported conflict is final, also if an earlier attempt arrives late.
func TestFirstAttemptArrivesLate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.NewDatabase(t)
			network, through := newDelay(t, direct)
			store := pgtest.OpenStore(t, pgtest.WithParameter(through, "default_query_exec_mode", mode), agentstore.Options{MaxConns: 1})
			other := pgtest.OpenStore(t, direct, agentstore.Options{})
			id := pgtest.NewSession(t, store)
			// The statement is prepared now, so it is sent in one piece.
			if _, err := store.Sessions().Append(t.Context(), id, user("first")); err != nil {
				t.Fatal(err)
			}
			if _, err := appendAt(t.Context(), store.Sessions(), id, 1, user("second")); err != nil {
				t.Fatal(err)
			}
			network.arm(store)
			_, err := appendAt(t.Context(), store.Sessions(), id, 3, user("late"))
			if network.armed.Load() {
				t.Fatal("nothing was kept")
			}
			if _, err := other.Sessions().Append(t.Context(), id, user("third")); err != nil {
				t.Fatal(err)
			}
			close(network.release)
			await.For(t, "the first attempt is written", func() bool {
				messages, err := other.Sessions().MessagesFrom(t.Context(), id, 3, 1)
				return err == nil && len(messages) == 1 && messages[0].Content == "late"
			})
			if !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Errorf("%v, but it is written; want %v", err, repo.ErrUnknownOutcome)
			}
		})
	}
}

// The store itself retries an append whose answer was lost. The message is stored
// once, even if the first attempt arrives after the second.
func TestLostAppendIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := newDelayed(t, repo.NewSession{})
	if _, err := l.store.Sessions().Append(t.Context(), l.id, user("first")); err != nil {
		t.Fatal(err)
	}
	l.network.arm(l.store)
	messages, err := l.store.Sessions().Append(t.Context(), l.id, user("once"))
	if l.network.armed.Load() {
		t.Fatal("nothing was kept")
	}
	if err != nil || len(messages) != 1 || messages[0].Sequence != 1 {
		t.Errorf("%+v, %v", messages, err)
	}
	l.arrive(t)
	session, err := l.direct.Sessions().Get(t.Context(), l.id)
	if err != nil || session.MessageCount != 2 {
		t.Errorf("%d messages, want 2: %v", session.MessageCount, err)
	}
}

// awaitQuiet waits until a pool is not used for a while, so that what the store sends by itself is seldom in the way.
func awaitQuiet(pool *pgxpool.Pool) {
	for before := int64(-1); before != pool.Stat().AcquireCount() || pool.Stat().AcquiredConns() > 0; {
		before = pool.Stat().AcquireCount()
		time.Sleep(200 * time.Millisecond) // pace: what the store sends later is in no test's way for certain
	}
}
