package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// errRepeated: parts may be stored already, and have to be compared.
var errRepeated = errors.New("stored already, perhaps")

// partsAppending is an append to a stream that is under way.
type partsAppending struct {
	commit.Progress

	stream repo.Stream
	parts  [][]byte
	// otherwise is the error if errRepeated turns out to be about other parts.
	otherwise error
}

func (a *partsAppending) next() int64 { return a.stream.Next + int64(len(a.parts)) }

// Size implements commit.Item.
func (a *partsAppending) Size() scheduler.Size {
	size := scheduler.Size{Rows: max(1, len(a.parts))}
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
	if a.Unsure {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	}
	return err
}

type (
	partsGroup = commit.Group[repo.ID, *partsAppending]
	partsTask  = commit.Task[repo.ID, *partsAppending]
)

// partsAppender commits appends to streams in groups: one statement for many streams. A
// stream whose row is locked is tried again.
type partsAppender struct {
	*commit.Committer[repo.ID, *partsAppending]
	tell func(...news)
}

func newPartsAppender(pool *pooled) *partsAppender {
	p := &partsAppender{tell: pool.changed}
	p.Committer = commit.New(pool.budget, commit.Config[repo.ID, *partsAppending]{
		Kind: "parts", Limits: appendLimits, Commit: func(g *partsGroup) { g.Run(g.Tasks, (&partsWriter{g, p}).send) },
	})
	return p
}

func (p *partsAppender) close() { p.Close() }

// partAppends is an executor that appends parts. If they may be stored already, it returns
// errRepeated.
type partAppends interface {
	appendParts(ctx context.Context, a *partsAppending) error
}

var (
	_ partAppends = (*pooled)(nil)
	_ partAppends = bound{}
)

// appendParts appends parts together with others.
func (p *pooled) appendParts(ctx context.Context, a *partsAppending) error {
	return p.submitted(ctx, "parts", a, func() error { return committerOf(p, newPartsAppender).Submit(ctx, a.stream.ID, a) })
}

// appendParts waits for the stream's row.
func (b bound) appendParts(ctx context.Context, a *partsAppending) error {
	run := &partsRun{items: []*partsAppending{a}}
	rows, err := ask(ctx, b.read, func(q db.DBTX) ([]db.StreamAppendManyRow, error) {
		rows, err := appendLocked(ctx, q, run)
		if conn.Violates(err, uniquePart) { // at a higher level: by somebody since its snapshot
			err = &conn.Error{Sentinel: repo.ErrContention, Cause: err}
		}
		return rows, err
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

// appendLocked makes a run behind the lock of its stream, whose row it waits for. So what it
// does not store is refused. It is for a caller's transaction: a group waits for nobody.
func appendLocked(ctx context.Context, q db.DBTX, run *partsRun) ([]db.StreamAppendManyRow, error) {
	return conn.After(ctx, q,
		func(q db.DBTX) error { return queries.StreamLock(ctx, q, toUUID(run.items[0].stream.ID)) },
		func(q db.DBTX) ([]db.StreamAppendManyRow, error) {
			return queries.StreamAppendMany(ctx, q, partsParams([]*partsRun{run}))
		})
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
func joinParts(g *partsGroup, tasks []*partsTask) []*partsRun {
	var runs []*partsRun
	broken := false
	for _, t := range tasks {
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
			g.Return(t)
		default:
			last.add(t)
		}
	}
	return runs
}

func partsParams(runs []*partsRun) (params db.StreamAppendManyParams) {
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
	}
	return params
}

// partsWriter writes the parts of a group.
type partsWriter struct {
	*partsGroup
	appender *partsAppender
}

// appending is StreamAppendMany, or that behind locks.
type appending func(ctx context.Context, q db.DBTX, params db.StreamAppendManyParams) ([]db.StreamAppendManyRow, error)

func (w *partsWriter) send(ctx context.Context, q db.DBTX, tasks []*partsTask) (func(), func(*partsTask) bool, error) {
	if alone, _ := q.(conn.Alone); alone.Says {
		return w.sendBy(ctx, q, tasks, appendPlain)
	}
	return w.sendBy(ctx, q, tasks, queries.StreamAppendMany)
}

// sendBehind sends the tasks behind the locks of their streams. It waits for none of them, either.
func (w *partsWriter) sendBehind(ctx context.Context, q db.DBTX, tasks []*partsTask) (func(), func(*partsTask) bool, error) {
	return w.sendBy(ctx, q, tasks, appendBehind)
}

func appendBehind(ctx context.Context, q db.DBTX, params db.StreamAppendManyParams) ([]db.StreamAppendManyRow, error) {
	return conn.After(ctx, q,
		func(q db.DBTX) error { return queries.StreamLockFree(ctx, q, params.StreamIds) },
		func(q db.DBTX) ([]db.StreamAppendManyRow, error) { return queries.StreamAppendMany(ctx, q, params) })
}

func (w *partsWriter) sendBy(ctx context.Context, q db.DBTX, tasks []*partsTask, statement appending) (func(), func(*partsTask) bool, error) {
	runs := joinParts(w.partsGroup, tasks)
	rows, err := statement(ctx, q, partsParams(runs))
	if conn.Violates(err, uniquePart) { // somebody had added a part just before: nothing was stored
		return func() { w.Run(tasks, w.sendBehind) }, nil, nil
	}
	return func() { w.answer(runs, rows) }, nil, err
}

// refuse gives the first append of a run its answer. The others are sent again.
func (w *partsWriter) refuse(run *partsRun, row *db.StreamAppendManyRow) {
	w.Done(run.tasks[0], run.items[0].refusal(row))
	for _, t := range run.tasks[1:] {
		w.Return(t)
	}
}

// stored gives the appends of runs their answer.
func (w *partsWriter) stored(runs ...*partsRun) {
	all := make([]news, len(runs))
	for i, run := range runs {
		all[i] = news{Key: run.last().stream.ID, Next: run.last().next()}
	}
	w.appender.tell(all...)
	for _, run := range runs {
		for _, t := range run.tasks {
			w.Done(t, nil)
		}
	}
}

// answer gives each append its answer.
func (w *partsWriter) answer(runs []*partsRun, rows []db.StreamAppendManyRow) {
	found := make([]*db.StreamAppendManyRow, len(runs))
	for i := range rows {
		found[rows[i].Place-1] = &rows[i]
	}
	var stored []*partsRun
	for i, run := range runs {
		switch row := found[i]; {
		case row != nil && row.Stored:
			stored = append(stored, run)
		case row != nil && row.Held:
			for _, t := range run.tasks {
				w.Hold(t, conn.PatienceOf(row.LockTimeout))
			}
		default:
			w.refuse(run, row)
		}
	}
	w.stored(stored...)
}
