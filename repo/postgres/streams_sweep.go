package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// removedPartBytes is how many bytes of parts are removed for each part that a removal is limited
// to, so that the default removes up to 8 MiB at once: large parts take the server longer.
const removedPartBytes = 8 << 10

// removeExpired removes up to limit parts, and up to limit streams.
func removeExpired(ctx context.Context, q db.DBTX, limit int) (streams, parts int64, err error) {
	// The ones that expired first may be kept: there may be others behind them.
	for expired := int64(limit); err == nil && expired == int64(limit) && streams+parts == 0; {
		p := &conn.Pipeline{}
		conn.Ask(ctx, p, &expired, queries.StreamExpire, int64(limit))
		most := db.StreamPartRemoveParams{MaxRows: int64(limit), MaxBytes: int64(limit) * removedPartBytes}
		conn.Ask(ctx, p, &parts, queries.StreamPartRemove, most)
		conn.Ask(ctx, p, &streams, queries.StreamRemove, int64(limit))
		err = p.Send(ctx, q)
	}
	return streams, parts, err
}

// sweepPause is how long a sweep waits for further reasons, and sweepTimeout bounds one transaction of it.
const (
	sweepPause   = time.Second
	sweepTimeout = 5 * time.Second
)

// sweeper removes remains, such as of streams that have expired, in its own time: the callers that give it
// a reason do not wait. It has a goroutine while there is something to do.
type sweeper struct {
	pause time.Duration
	// remove removes up to limit rows, and reports whether there may be more.
	limit  int
	remove func(ctx context.Context, limit int) (more bool, err error)
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	running sync.WaitGroup
	// awake: a goroutine sweeps, or is about to. again: there was a reason since it began.
	awake, again bool
}

func newSweeper(pause time.Duration, limit int, remove func(context.Context, int) (bool, error)) sweeper {
	ctx, cancel := context.WithCancel(context.Background())
	return sweeper{pause: pause, limit: limit, remove: remove, ctx: ctx, cancel: cancel}
}

// Close ends a sweep.
func (s *sweeper) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// wake gives a reason to sweep: soon, and at most once in a pause.
func (s *sweeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again = true; !s.awake && s.ctx.Err() == nil {
		s.awake = true
		s.running.Go(s.run)
	}
}

func (s *sweeper) run() {
	for {
		select {
		case <-time.After(s.pause):
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		if !s.again {
			s.awake = false
			s.mu.Unlock()
			return
		}
		s.again = false
		s.mu.Unlock()
		s.sweep()
	}
}

// sweep removes until nothing is left. After an error it removes less at once: the server may allow a
// statement little time. What it leaves is the next one's.
func (s *sweeper) sweep() {
	for limit := s.limit; limit > 0 && s.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(s.ctx, sweepTimeout)
		more, err := s.remove(ctx, limit)
		cancel()
		switch {
		case err != nil:
			limit /= 10
		case !more:
			return
		}
	}
}

// streamSweeper sweeps streams that have expired, and what deletions have left.
type streamSweeper struct{ sweeper }

func newStreamSweeper(p *pooled) *streamSweeper {
	remove := func(ctx context.Context, limit int) (bool, error) {
		var streams, parts int64
		err := p.conns.Run(ctx, conn.Committing, func(q db.DBTX) (err error) {
			streams, parts, err = removeExpired(ctx, q, limit)
			return err
		})
		if err != nil {
			return false, err
		}
		more := false
		err = p.conns.Run(ctx, conn.Committing, func(q db.DBTX) (err error) {
			_, more, err = removeDeleted(ctx, q, limit)
			return err
		})
		return more || streams+parts > 0, err
	}
	return &streamSweeper{newSweeper(sweepPause, limits.DefaultStreamRemoval, remove)}
}
