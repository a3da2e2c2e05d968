package postgres

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// lanes commit appends in groups. Each session has its lane, so that the writers
// of a hot session do not fight over its counter row: whatever waits when a lane
// is free goes into one transaction and one round trip. A lane that is free goes
// at once; nobody waits for a timer.
type lanes struct {
	all     []*lane
	running sync.WaitGroup
}

// queueLength bounds the appends that wait in one lane. Who finds it full waits
// until there is room. It is far beyond what a busy service has waiting, because
// who waits for room waits in no order of sessions.
const queueLength = 1 << 16

func newLanes(link link, count int) *lanes {
	l := &lanes{all: make([]*lane, count)}
	for i := range l.all {
		l.all[i] = &lane{
			link:    link,
			running: &l.running,
			slots:   make(chan struct{}, queueLength),
			queues:  map[repo.ID][]*waiter{},
		}
	}
	return l
}

// submit hands an append to its session's lane and waits for the answer. If ctx
// ends before the lane took the append, it is withdrawn: surely not written. If
// ctx ends after, the outcome is unknown.
func (l *lanes) submit(ctx context.Context, a *appending) (db.MessageAppendRow, error) {
	if err := ctx.Err(); err != nil {
		return db.MessageAppendRow{}, translate(ctx, err, unsent)
	}
	lane := l.of(a.sessionID)
	select {
	case lane.slots <- struct{}{}:
	case <-ctx.Done():
		return db.MessageAppendRow{}, translate(ctx, ctx.Err(), unsent)
	}
	w := &waiter{appending: a, answered: make(chan struct{})}
	lane.enqueue(w)
	select {
	case <-w.answered:
		return w.row, w.err
	case <-ctx.Done():
	}
	if w.withdraw() {
		return db.MessageAppendRow{}, translate(ctx, ctx.Err(), unsent)
	}
	select {
	case <-w.answered: // at the same moment
		return w.row, w.err
	default:
		w.group.desert()
		return db.MessageAppendRow{}, &storeError{repo.ErrUnknownOutcome, ctx.Err()}
	}
}

// of finds a session's lane. The last bytes of a ULID are random.
func (l *lanes) of(sessionID repo.ID) *lane {
	return l.all[binary.BigEndian.Uint32(sessionID[12:])%uint32(len(l.all))]
}

// close waits for the groups under way. Nothing may be submitted any more.
func (l *lanes) close() { l.running.Wait() }
