package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
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

// refusal returns why an append was not stored, from the stream's row (nil: there is none). It is never nil.
func (a *partsAppending) refusal(row *db.StreamLookRow) (err error) {
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

// partsAppender commits appends to streams in groups. A stream whose row is locked is tried again.
type partsAppender struct {
	*commit.Committer[repo.ID, *partsAppending]
	tell func(...news)
}

func newPartsAppender(pool *pooled) *partsAppender {
	p := &partsAppender{tell: pool.changed}
	p.Committer = commit.New(pool.budget, commit.Config[repo.ID, *partsAppending]{
		Kind: "parts", Limits: write.Limits, Commit: func(g *partsGroup) { g.Run(g.Tasks, (&partsWriter{g, p}).send) },
	})
	return p
}

// appendParts appends parts together with others.
func (p *pooled) appendParts(ctx context.Context, a *partsAppending) error {
	return p.submitted(ctx, "parts", a, func() error {
		return committerOf(p, newPartsAppender).Submit(ctx, a.stream.ID, a)
	})
}

// appendParts waits for the stream's row.
func (b bound) appendParts(ctx context.Context, a *partsAppending) error {
	run := &partsRun{items: []*partsAppending{a}}
	err := b.read(ctx, func(q db.DBTX) error {
		look, write := &conn.Pipeline{}, &conn.Pipeline{}
		look.Add(func(q db.DBTX) error { return queries.StreamLock(ctx, q, convert.UUID(a.stream.ID)) })
		lookAtStreams(ctx, look, []*partsRun{run})
		err := look.Send(ctx, q)
		if err == nil && writeParts(ctx, write, []*partsRun{run}) {
			err = write.Send(ctx, q)
		}
		if conn.Violates(err, convert.UniquePart) { // at a higher level: by another transaction since its snapshot
			err = &conn.Error{Sentinel: repo.ErrContention, Cause: err}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !run.fits():
		return a.refusal(run.row)
	}
	b.changed(grown(a.stream.ID, a.next()))
	return nil
}

// partsRun has appends to one stream that follow one another, which are made as one.
type partsRun struct {
	tasks []*partsTask
	items []*partsAppending
	// row is the stream's, nil if there is none. held: another transaction has locked it.
	row  *db.StreamLookRow
	held bool
}

// fits reports whether the parts are the next ones of the stream's writer.
func (r *partsRun) fits() bool {
	first := &r.items[0].stream
	return r.row != nil && !r.held && !r.row.Expired && r.row.Status == string(repo.StreamOpen) &&
		r.row.Fence == first.Fence && r.row.NextSequence == first.Next
}

func (r *partsRun) add(t *partsTask) {
	r.tasks, r.items = append(r.tasks, t), append(r.items, t.Item)
}

func (r *partsRun) last() *partsAppending { return r.items[len(r.items)-1] }

// joinParts makes one run for each stream. An append of the same stream that does not
// follow, and later ones, return to the scheduler.
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

// lookAtStreams adds the statements that lock the unlocked streams, and look at them behind the locks: the holder
// of a lock just before may have added parts.
func lookAtStreams(ctx context.Context, p *conn.Pipeline, runs []*partsRun) {
	ids := convert.Each(runs, func(r *partsRun) pgtype.UUID { return convert.UUID(r.items[0].stream.ID) })
	var locked []pgtype.UUID
	p.Add(func(q db.DBTX) (err error) {
		locked, err = queries.StreamLockFree(ctx, q, ids)
		return err
	})
	p.Add(func(q db.DBTX) error {
		rows, err := queries.StreamLook(ctx, q, ids)
		for i := range rows {
			run := runs[slices.Index(ids, rows[i].ID)]
			run.row, run.held = &rows[i], !slices.Contains(locked, rows[i].ID)
		}
		return err
	})
}

// writeParts adds the statements that store what fits. It reports false if that is nothing.
func writeParts(ctx context.Context, p *conn.Pipeline, runs []*partsRun) bool {
	var insert db.StreamPartInsertParams
	var check db.StreamPartCheckParams
	var short []pgtype.UUID
	for _, run := range runs {
		if !run.fits() {
			continue
		}
		sequence := run.row.NextSequence
		for _, a := range run.items {
			for _, part := range a.parts {
				insert.StreamIds, insert.Sequences = append(insert.StreamIds, run.row.ID), append(insert.Sequences, sequence)
				insert.Datas = append(insert.Datas, part)
				sequence++
			}
		}
		check.StreamIds = append(check.StreamIds, run.row.ID)
		check.Firsts, check.NextSequences = append(check.Firsts, run.row.NextSequence), append(check.NextSequences, sequence)
		if run.row.IsShort {
			short = append(short, run.row.ID)
		}
	}
	if len(insert.Datas) > 0 {
		p.Add(func(q db.DBTX) error { return queries.StreamPartInsert(ctx, q, insert) })
		p.Add(func(q db.DBTX) error { return queries.StreamPartCheck(ctx, q, check) })
	}
	if len(short) > 0 {
		p.Add(func(q db.DBTX) error { return queries.StreamExtend(ctx, q, short) })
	}
	return len(p.Steps) > 0
}

// partsWriter writes the parts of a group.
type partsWriter struct {
	*partsGroup
	appender *partsAppender
}

// send makes a transaction of two round trips: the first locks and looks, and the second writes and commits.
func (w *partsWriter) send(ctx context.Context, q db.DBTX, tasks []*partsTask) (func(), func(*partsTask) bool, error) {
	pg, runs := q.(conn.Alone).Conn, joinParts(w.partsGroup, tasks)
	defer conn.RollbackOpen(ctx, pg)
	look, write := &conn.Pipeline{}, &conn.Pipeline{}
	look.Begin(ctx)
	lookAtStreams(ctx, look, runs)
	if err := look.Send(ctx, pg); err != nil {
		return nil, nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	if writeParts(ctx, write, runs) {
		if err := write.SendAndCommit(ctx, pg); err != nil {
			return nil, nil, err
		}
	}
	return func() { w.answer(runs) }, nil, nil
}

// refuse gives the first append of a run its answer. The others are sent again.
func (w *partsWriter) refuse(run *partsRun) {
	w.Done(run.tasks[0], run.items[0].refusal(run.row))
	for _, t := range run.tasks[1:] {
		w.Return(t)
	}
}

// stored gives the appends of runs their answer.
func (w *partsWriter) stored(runs ...*partsRun) {
	w.appender.tell(convert.Each(runs, func(run *partsRun) news {
		return grown(run.last().stream.ID, run.last().next())
	})...)
	for _, run := range runs {
		w.Made(run.tasks...)
	}
}

// answer gives each append its answer.
func (w *partsWriter) answer(runs []*partsRun) {
	var stored []*partsRun
	for _, run := range runs {
		switch {
		case run.fits():
			stored = append(stored, run)
		case run.held:
			for _, t := range run.tasks {
				w.Locked(t, conn.PatienceOf(run.row.LockTimeout))
			}
		default:
			w.refuse(run)
		}
	}
	w.stored(stored...)
}
