package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// errRepeated: parts may be stored already, and have to be compared.
var errRepeated = errors.New("stored already, perhaps")

// partsAppending is an append to a stream that is under way.
type partsAppending struct {
	stream repo.Stream
	parts  [][]byte
	// unsure: an earlier attempt may have been committed.
	unsure bool
	// skipped is when a group first found the stream's row locked.
	skipped time.Time
	// otherwise is the error if errRepeated turns out to be about other parts.
	otherwise, err error
}

func (a *partsAppending) next() int64 { return a.stream.Next + int64(len(a.parts)) }

func (a *partsAppending) size() scheduler.Size {
	size := scheduler.Size{Rows: len(a.parts)}
	for _, part := range a.parts {
		size.Bytes += len(part)
	}
	return size
}

// errUnexplained: the stream's row does not say why.
var errUnexplained = errors.New("parts were not stored for no reason that the stream shows")

// refusal returns why an append was not stored, from the stream's row. It is never nil.
func (a *partsAppending) refusal(row *db.StreamAppendManyRow) (err error) {
	var stored *repo.Stream
	gone := row == nil || row.Expired
	if row != nil {
		stored = &repo.Stream{Fence: row.Fence, Status: repo.StreamStatus(row.Status), Next: row.NextSequence}
	}
	if err = rules.CheckStreamWriter(a.stream, stored, gone); err == nil {
		var repeated bool
		if repeated, a.otherwise = rules.CheckStreamAppend(a.stream, stored, len(a.parts)); repeated {
			return errRepeated
		}
		if err = a.otherwise; err == nil {
			err = &conn.Error{Sentinel: repo.ErrContention, Cause: errUnexplained}
		}
		if a.stream.Next <= stored.Next {
			return err // an earlier attempt has not stored it, and will not
		}
	}
	if a.unsure {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	}
	return err
}

type (
	partsBatch = scheduler.Batch[repo.ID, *partsAppending]
	partsTask  = scheduler.Task[repo.ID, *partsAppending]
)

// partsAppender commits appends to streams in groups: one statement for many streams. A
// stream whose row is locked is tried again. All stores on a pool share one.
type partsAppender struct {
	conns     conn.Conns
	tell      func(...news)
	scheduler *scheduler.Scheduler[repo.ID, *partsAppending]

	mu       sync.Mutex
	sweeping bool
	swept    time.Time // when nothing was left to sweep
}

// maxPartsGroups bounds the groups under way: they leave connections to others, and are
// larger for it.
const maxPartsGroups = 2

func newPartsAppender(conns conn.Conns, tell func(...news)) *partsAppender {
	p := &partsAppender{conns: conns, tell: tell}
	p.scheduler = scheduler.New(scheduler.Config[repo.ID, *partsAppending]{
		Limits: appendLimits,
		Groups: min(groupBound(int(conns.Pool.Config().MaxConns)), maxPartsGroups),
		Group:  func(b *partsBatch) { (&partsGroup{partsBatch: b, appender: p}).commit(joinParts(b)) },
	})
	return p
}

func (p *partsAppender) close() { p.scheduler.Close() }

// submit has parts committed, and waits for the answer, as appender.submit does.
func (p *partsAppender) submit(ctx context.Context, a *partsAppending) error {
	err := p.scheduler.Submit(ctx, a.stream.ID, a, a.size())
	switch {
	case err == nil:
		return a.err
	case errors.Is(err, scheduler.ErrWithdrawn) && !a.unsure:
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	case errors.Is(err, scheduler.ErrClosed):
		return repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: err}
	}
	return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: ctx.Err()}
}

func (p *pooled) appendParts(ctx context.Context, a *partsAppending) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	return p.parts.submit(ctx, a)
}

// appendParts waits for the stream's row.
func (b bound) appendParts(ctx context.Context, a *partsAppending) error {
	run := &partsRun{items: []*partsAppending{a}}
	rows, err := ask(ctx, b.read, func(q db.DBTX) ([]db.StreamAppendManyRow, error) {
		return conn.After(ctx, q,
			func(q db.DBTX) error { return queries.StreamLock(ctx, q, toUUID(a.stream.ID)) },
			func(q db.DBTX) ([]db.StreamAppendManyRow, error) {
				return queries.StreamAppendMany(ctx, q, partsParams([]*partsRun{run}))
			})
	})
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		return a.refusal(nil)
	case !rows[0].Stored:
		return a.refusal(&rows[0])
	}
	b.changed(news{Key: a.stream.ID, Next: a.next()})
	return nil
}

// partsRun has appends to one stream that follow one another, which a statement makes as
// one.
type partsRun struct {
	tasks []*partsTask
	items []*partsAppending
}

func (r *partsRun) add(t *partsTask) {
	r.tasks, r.items = append(r.tasks, t), append(r.items, t.Item)
}

func (r *partsRun) last() *partsAppending { return r.items[len(r.items)-1] }

// joinParts makes one run for each stream. An append of the same stream that does not
// follow, and those after it, return to the scheduler.
func joinParts(b *partsBatch) []*partsRun {
	var runs []*partsRun
	broken := false
	for _, t := range b.Tasks {
		var last *partsRun
		if len(runs) > 0 && runs[len(runs)-1].tasks[0].Key == t.Key {
			last = runs[len(runs)-1]
		}
		switch {
		case last == nil:
			runs = append(runs, &partsRun{})
			runs[len(runs)-1].add(t)
			broken = false
		case broken || last.last().stream.Fence != t.Item.stream.Fence || last.last().next() != t.Item.stream.Next:
			broken = true
			b.Return(t)
		default:
			last.add(t)
		}
	}
	return runs
}

func partsParams(runs []*partsRun) (params db.StreamAppendManyParams) {
	params.StreamIds = make([]pgtype.UUID, 0, len(runs))
	for i, run := range runs {
		first, place := run.items[0].stream, int64(0)
		for _, a := range run.items {
			for _, part := range a.parts {
				params.Owners = append(params.Owners, int64(i)+1)
				params.PlacesInStream = append(params.PlacesInStream, place)
				params.Datas = append(params.Datas, part)
				place++
			}
		}
		params.StreamIds = append(params.StreamIds, toUUID(first.ID))
		params.Fences = append(params.Fences, first.Fence)
		params.FirstSequences = append(params.FirstSequences, first.Next)
		params.Sizes = append(params.Sizes, place)
	}
	return params
}

// partsGroup is a batch of appends that is being committed.
type partsGroup struct {
	*partsBatch
	appender *partsAppender
}

func (g *partsGroup) done(t *partsTask, err error) {
	t.Item.err = err
	g.Done(t)
}

// commit sends runs as one transaction, until each append has its answer or is left to
// the scheduler.
func (g *partsGroup) commit(runs []*partsRun) {
	for attempt := 1; len(runs) > 0; attempt++ {
		rows, err := g.send(runs)
		switch {
		case err == nil:
			g.answer(runs, rows)
			return
		case conn.IsRejection(err) && len(runs) > 1:
			// One stream's parts aborted the transaction of all.
			for _, run := range runs {
				g.commit([]*partsRun{run})
			}
			return
		case conn.IsPassing(err) && !conn.IsRejection(err) && g.Context().Err() == nil && conn.Pause(g.Context(), attempt):
		default:
			for _, run := range runs {
				for _, t := range run.tasks {
					g.done(t, conn.Settled(conn.AfterDoubt(t.Item.unsure, err)))
				}
			}
			return
		}
	}
}

func (g *partsGroup) send(runs []*partsRun) (rows []db.StreamAppendManyRow, err error) {
	err = g.appender.conns.Run(g.Context(), conn.Committing, func(q db.DBTX) (err error) {
		rows, err = queries.StreamAppendMany(g.Context(), q, partsParams(runs))
		return err
	})
	unsure := errors.Is(err, repo.ErrUnknownOutcome)
	for _, run := range runs {
		for _, a := range run.items {
			a.unsure = a.unsure || unsure
		}
	}
	return rows, conn.AfterDoubt(unsure, err)
}

// answer gives each append its answer. Of a run that was not stored the first one has it;
// the others are sent again.
func (g *partsGroup) answer(runs []*partsRun, rows []db.StreamAppendManyRow) {
	found := make([]*db.StreamAppendManyRow, len(runs))
	for i := range rows {
		found[rows[i].Place-1] = &rows[i]
	}
	var stored []news
	for i, run := range runs {
		if row := found[i]; row != nil && row.Stored {
			stored = append(stored, news{Key: run.last().stream.ID, Next: run.last().next()})
		}
	}
	g.appender.tell(stored...)
	for i, run := range runs {
		switch row := found[i]; {
		case row != nil && row.Held:
			g.hold(run, conn.PatienceOf(row.LockTimeout))
		case row != nil && row.Stored:
			for _, t := range run.tasks {
				g.done(t, nil)
			}
		default:
			g.done(run.tasks[0], run.items[0].refusal(row))
			for _, t := range run.tasks[1:] {
				g.Return(t)
			}
		}
	}
}

// hold leaves a run whose stream's row was skipped to the scheduler, but those appends that
// were tried for longer than patience. Zero: they are tried as long as their contexts last.
func (g *partsGroup) hold(run *partsRun, patience time.Duration) {
	for _, t := range run.tasks {
		if t.Item.skipped.IsZero() {
			t.Item.skipped = time.Now()
		} else if patience > 0 && time.Since(t.Item.skipped) >= patience {
			g.done(t, conn.Settled(conn.AfterDoubt(t.Item.unsure, &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout})))
		}
	}
}

// sweepPause is for how long nothing is looked for after nothing was found.
const sweepPause = time.Second

// sweep removes some streams that have expired, so that those who open streams clear away
// what is left behind. One caller at a time does so. An error is the next one's to find.
func (p *partsAppender) sweep(ctx context.Context, s *streams) {
	p.mu.Lock()
	if p.sweeping || time.Since(p.swept) < sweepPause {
		p.mu.Unlock()
		return
	}
	p.sweeping = true
	p.mu.Unlock()
	removed, err := s.RemoveExpired(ctx, repo.DefaultStreamRemoval)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	if err != nil || removed == (repo.RemovedStreams{}) {
		p.swept = time.Now()
	}
}
