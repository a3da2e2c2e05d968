package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
)

// news is what others may wait for, of a kind.
type news = follow.News[follow.Subject]

const (
	// aboutMessages: a session has messages, or a stream parts, below a sequence. Which of them it is does not matter to
	// a hint, since their ids differ.
	aboutMessages = 'm'
	// aboutStreams: a stream of a session was opened.
	aboutStreams = 's'
	// aboutQueue: a plan of a namespace was queued, or may be claimed now. The key is the namespace's digest.
	aboutQueue = 'q'
	// aboutLease: a lease has ended before its time. The key is the lease's, as a digest.
	aboutLease = 'l'
)

func newsOf(kind byte, key [16]byte) news {
	return news{Key: follow.Subject{Kind: kind, Key: key}, Next: follow.Look}
}

// grown says that a session has messages, or a stream parts, below a sequence.
func grown(id repo.ID, next int64) news {
	return news{Key: follow.Subject{Kind: aboutMessages, Key: id}, Next: next}
}

// newest is the next sequence of a session or a stream.
type newest = follow.News[repo.ID]

// The intervals of the poll: while the listener listens, what it finds is only what
// writers did not announce.
const (
	pollListening = 900 * time.Millisecond
	pollDeaf      = 450 * time.Millisecond
)

// live tells followers of sessions and streams, and callers that wait for plans, what is
// new: in this process at once, in others by notifications. All stores on a pool share one.
type live struct {
	conns     conn.Conns
	messages  *follow.Hub[repo.ID, repo.Message]
	parts     *follow.Hub[repo.ID, repo.StreamPart]
	streams   *follow.Waiters[openStreams]
	claims    *follow.Waiters[repo.Claim]
	free      *follow.Waiters[repo.NewLease]
	ended     *follow.Waiters[repo.Lease]
	lately    lately
	notifier  *follow.Notifier
	listener  *follow.Listener
	listening atomic.Bool
	// all are the waiters of every kind.
	all []waiters
}

type waiters interface {
	Poke()
	Close()
}

func newLive(conns conn.Conns) *live {
	l := &live{conns: conns}
	l.listener = follow.NewListener(follow.ListenerConfig{Connect: l.connect, Connected: l.connected, Heard: l.heard})
	l.messages = newHub(l, l.readMessages, l.moved, tailBytes)
	l.parts = newHub(l, l.readParts, l.movedStreams, func(p repo.StreamPart) int { return len(p.Data) })
	l.streams = newWaiters(l, l.otherStreams, false)
	l.claims = newWaiters(l, l.claimable, false)
	l.free = newWaiters(l, l.freeLeases, true)
	l.ended = newWaiters(l, l.endedLeases, false)
	l.all = []waiters{l.messages, l.parts, l.streams, l.claims, l.free, l.ended}
	l.notifier = follow.NewNotifier(l.notify)
	return l
}

// newWaiters returns the waiters for what matches a filter, in the order in which they came if it is ordered.
func newWaiters[Filter any](
	l *live, poll func(context.Context, []Filter) ([]bool, error), ordered bool,
) *follow.Waiters[Filter] {
	return follow.NewWaiters(follow.WaitersConfig[Filter]{
		Poll: poll, Passes: conn.IsPassing, Interval: l.interval, Ordered: ordered,
	})
}

// newHub returns the followers of sessions, or of streams.
func newHub[Item any](
	l *live, read func(context.Context, []follow.Position[repo.ID]) ([]follow.Found[Item], error),
	moved func(context.Context, []newest) ([]newest, error), size func(Item) int,
) *follow.Hub[repo.ID, Item] {
	return follow.New(follow.Config[repo.ID, Item]{
		Read: read, Newest: moved, Size: size, Passes: conn.IsPassing, Alone: conn.IsAnswered, Interval: l.interval,
		Readers: readerBound(int(l.conns.Pool.Config().MaxConns)), Positions: maxPositions,
	})
}

// readerBound is how many connections may read for followers: with several, one is for
// up-to-date ones.
func readerBound(connections int) int { return min(1+connections/2, 5) }

func (l *live) close() {
	l.listener.Close()
	for _, one := range l.all {
		one.Close()
	}
	l.notifier.Close()
}

// changed announces what an operation has committed.
func (l *live) changed(all ...news) {
	if len(all) > 0 {
		l.tell(all)
		l.notifier.Add(all...)
	}
}

// tell tells the followers and waiters of this process.
func (l *live) tell(all []news) {
	var about []newest
	for _, n := range all {
		switch key := n.Key.Key; n.Key.Kind {
		case aboutMessages:
			about = append(about, newest{Key: key, Next: n.Next})
		case aboutStreams:
			l.streams.Tell(key)
		case aboutQueue:
			l.claims.Tell(key, anyQueue)
		case aboutLease:
			l.lately.add(key)
			l.ended.Tell(key)
			l.free.Tell(key)
		}
	}
	l.messages.Tell(about...)
	l.parts.Tell(about...)
}

// notifyLock is the class of the advisory lock of listeners. The number is
// arbitrary.
const notifyLock = 0x61676e74

// notify sends notifications, on a connection of the pool, in a transaction of its own.
// In the writing transaction a NOTIFY would hold a lock that all writers need until the
// commit is on disk.
func (l *live) notify(ctx context.Context, payloads []string) (heard bool, err error) {
	err = l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		row, err := queries.LiveNotify(ctx, q, db.LiveNotifyParams{Payloads: payloads, LockClass: notifyLock})
		heard = row.Heard
		return err
	})
	return heard, err
}

// The bounds of a statement that no caller's context bounds: its connection may be dead
// unnoticed. A read may have to carry large messages.
const (
	readTimeout = 15 * time.Second
	pollTimeout = 5 * time.Second
)

// readAttempts are the attempts of one read, as of other operations: a connection of the
// pool may be lost.
const readAttempts = conn.MaxAttempts

// within runs a statement for as long as ctx lives, and at most for bound. After that the
// database counts as unavailable.
func (l *live) within(ctx context.Context, bound time.Duration, attempts int,
	statement func(context.Context, db.DBTX) error,
) error {
	timed, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := l.conns.Run(timed, conn.Reading, func(q db.DBTX) error { return statement(timed, q) })
		switch {
		case err != nil && timed.Err() != nil && ctx.Err() == nil:
			return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: errNoAnswer}
		case !conn.IsPassing(err) || conn.HasCode(err, conn.QueryCanceled) || attempt >= attempts ||
			!conn.Pause(timed, attempt):
			return err // what has taken too long would do so again
		}
	}
}

var errNoAnswer = errors.New("no answer in time")

func (l *live) interval() time.Duration {
	if l.listening.Load() {
		return pollListening
	}
	return pollDeaf
}

func (l *live) connected(listening bool, _ error) {
	l.listening.Store(listening)
	for _, one := range l.all {
		one.Poke()
	}
}

func (l *live) heard(payload string) { l.tell(follow.Decode(payload)) }

// awaited has a caller wait: see follow.Waiters. It is not inside of the gate: Close ends the wait, and does not wait
// for it.
func awaited[Filter any](
	ctx context.Context, p *pooled, of *follow.Waiters[Filter], key string, filter Filter, about [][16]byte,
	look func() (bool, error),
) error {
	if err := p.usable(ctx); err != nil {
		return err
	}
	defer p.live.listener.Use()() //nolint:contextcheck // its goroutine is no waiting caller's
	err := of.Await(ctx, p.gate.closing, key, filter, about, look)
	if errors.Is(err, follow.ErrClosed) {
		return repo.ErrClosed
	}
	return err
}

// polled returns of which of the filters a statement has returned a place. of: whose a place is.
func (l *live) polled(
	ctx context.Context, filters int, of func(place int64) int, list func(context.Context, db.DBTX) ([]int64, error),
) ([]bool, error) {
	some := make([]bool, filters)
	err := l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		places, err := list(ctx, q)
		for _, place := range places {
			some[of(place)] = true
		}
		return err
	})
	return some, err
}

// connect makes the listener's connection. It is not one of the pool's, since it is kept
// for as long as there are followers.
func (l *live) connect(ctx context.Context) (follow.Line, error) {
	pg, err := conn.Dial(ctx, l.conns.Pool.Config(), func(config *pgx.ConnConfig) {
		// Nothing is left prepared on a pooler's connection.
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		// Otherwise a function of the caller's would be given the notifications instead.
		config.OnNotification = nil
	})
	if err != nil {
		return nil, err
	}
	if err := listen(ctx, pg); err != nil {
		conn.Close(ctx, pg)
		return nil, err
	}
	return line{pg}, nil
}

// listen has a connection listen. (It is not a query of sqlc, which does not support
// LISTEN.)
func listen(ctx context.Context, pg *pgx.Conn) error {
	process, err := queries.LiveProcess(ctx, conn.Alone{Conn: pg})
	if err != nil {
		return err
	}
	if uint32(process) != pg.PgConn().PID() {
		return follow.ErrDeaf
	}
	channel, err := queries.LiveListen(ctx, conn.Alone{Conn: pg}, notifyLock)
	if err != nil {
		return err
	}
	_, err = pg.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize())
	return err
}

// line is a connection that listens.
type line struct{ conn *pgx.Conn }

// The connection is checked when nothing has arrived for quiet.
const (
	quiet       = 30 * time.Second
	pingTimeout = 5 * time.Second
)

// Next implements follow.Line.
func (l line) Next(ctx context.Context) (string, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		notification, err := l.conn.WaitForNotification(waiting)
		cancel()
		if err == nil {
			return notification.Payload, nil
		}
		if ctx.Err() != nil || l.conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		pinging, cancel := context.WithTimeout(ctx, pingTimeout)
		err = l.conn.Ping(pinging)
		cancel()
		if err != nil {
			return "", err
		}
	}
}

// Close implements follow.Line.
func (l line) Close() { conn.Close(context.Background(), l.conn) }
