package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// monthsAhead is how many partitions after the current month's are made when one
// is looked for.
const monthsAhead = 3

// knownMonths is where a connection remembers which months have partitions. It
// is the connection's own, because a transaction of the caller's may be all there
// is, and because it ends with what it is about. True: it is there. False: this
// connection made it in a transaction, which may have been rolled back.
const knownMonths = "agentstore.audit_months"

// monthsOf returns the first moments of the entries' months, each once.
func monthsOf(entries []repo.AuditEntry) []time.Time {
	var months []time.Time
	for _, e := range entries {
		month := time.Date(e.OccurredAt.Year(), e.OccurredAt.Month(), 1, 0, 0, 0, 0, time.UTC)
		if !slices.Contains(months, month) {
			months = append(months, month)
		}
	}
	return months
}

// recordAudit makes sure of the partitions, in a statement of its own for a month
// that the connection has not seen yet, and records the entries. A partition that
// was there and is gone is made again.
func recordAudit(ctx context.Context, q db.DBTX, params db.AuditRecordParams, months []time.Time) (written int64, err error) {
	known := connectionMonths(q)
	if err := makePartitions(ctx, q, months, known); err != nil {
		return 0, err
	}
	written, err = queries.AuditRecord(ctx, q, params)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || !isNoPartition(pgErr) {
		return written, err
	}
	clear(known)
	if _, transaction := q.(pgx.Tx); transaction {
		return 0, err // which has spoiled the transaction: it is run again
	}
	if err := makePartitions(ctx, q, months, known); err != nil {
		return 0, err
	}
	return queries.AuditRecord(ctx, q, params)
}

// makePartitions makes those of the months that are not known to be there.
func makePartitions(ctx context.Context, q db.DBTX, months []time.Time, known map[time.Time]bool) error {
	_, transaction := q.(pgx.Tx)
	for _, month := range months {
		if known[month] {
			continue
		}
		ahead := int32(0)
		// A caller's transaction makes none ahead: others who need them would
		// wait for its end.
		if now := time.Now(); !transaction && !month.After(now) && now.Sub(month) < 32*24*time.Hour {
			ahead = monthsAhead
		}
		made, err := queries.AuditMakePartitions(ctx, q, month, ahead)
		if err != nil {
			return err
		}
		_, doubtful := known[month]
		switch {
		case !transaction:
			known[month] = true
		case made > 0: // and taken back, perhaps: the server is asked each time
			known[month] = false
		case !doubtful: // it was there before this transaction
			known[month] = true
		}
	}
	return nil
}

// isNoPartition reports whether a row of the trail had no partition to go to.
func isNoPartition(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && lacksPartition(pgErr)
}

// lacksPartition: PostgreSQL counts that among violations of a check, and names
// no check.
func lacksPartition(pgErr *pgconn.PgError) bool {
	return pgErr.Code == checkViolation && pgErr.ConstraintName == "" && strings.HasPrefix(pgErr.TableName, "audit_entries")
}

// mend makes the partitions of the months from now on, if it was their lack that
// an operation failed of: it is about to be run again. What the store records of
// its own operations has no other time than now.
func (p *pooled) mend(ctx context.Context, err error) {
	if !isNoPartition(err) {
		return
	}
	p.months.forget()
	p.cover(ctx)
}

// coverage is until when the months are known to have partitions, by this process's
// monotonic clock: a clock that is set tells nothing of the server's. The server was
// asked for the months of its clock and of a day later; within that day it is asked
// again. It is safe for concurrent use.
type coverage struct{ until atomic.Pointer[time.Time] }

func (c *coverage) lasts() bool {
	until := c.until.Load()
	return until != nil && time.Now().Before(*until)
}

func (c *coverage) set(seconds int64) {
	until := time.Now().Add(time.Duration(min(seconds, 32*24*60*60)) * time.Second)
	c.until.Store(&until)
}

func (c *coverage) forget() { c.until.Store(nil) }

// coverRetry is how long it is done without where the months cannot be made: by a
// role that only reads, say.
const coverRetry = 60

// cover makes sure of the partitions that what is recorded from now on needs, before
// a transaction begins: what it makes is there for everybody at once. Its failure is
// no failure of what comes after, which may record nothing.
func (p *pooled) cover(ctx context.Context) {
	if p.months.lasts() {
		return
	}
	var row db.AuditCoverRow
	err := p.link.run(ctx, committing, func(q db.DBTX) (err error) {
		row, err = queries.AuditCover(ctx, q, monthsAhead)
		return err
	})
	if err != nil {
		row.Seconds = coverRetry
	}
	if ctx.Err() == nil {
		p.months.set(row.Seconds)
	}
}

// connectionCoverage is a connection's own: a caller's transaction may be all that
// there is. One goroutine uses a connection at a time.
type connectionCoverage struct {
	coverage
	// unsure is the transaction that made a month, and may be rolled back.
	unsure pgx.Tx
}

const coverageKey = "agentstore.audit_coverage"

func coverageOf(conn *pgx.Conn) *connectionCoverage {
	data := conn.PgConn().CustomData()
	c, ok := data[coverageKey].(*connectionCoverage)
	if !ok {
		c = &connectionCoverage{}
		data[coverageKey] = c
	}
	return c
}

// cover makes sure of the partitions within a transaction of somebody else's. Where
// they are there, which is as good as always, that locks nothing. Otherwise who
// needs a new month, this one or another, waits for this transaction's end, 5 seconds at most.
func (b bound) cover(ctx context.Context) error {
	conn := b.tx.Conn()
	if conn == nil { // a transaction of a test's
		return nil
	}
	c := coverageOf(conn)
	if c.lasts() {
		return nil
	}
	row, err := queries.AuditCover(ctx, b.tx, 0)
	switch {
	case err != nil:
		return translate(ctx, err, reading)
	case row.Made > 0:
		c.unsure = b.tx
	case c.unsure != b.tx:
		c.set(row.Seconds)
		c.unsure = nil
	}
	return nil
}

// uncover forgets what was known, if the lack of a partition shows it wrong.
func (b bound) uncover(err error) error {
	if isNoPartition(err) && b.tx.Conn() != nil {
		coverageOf(b.tx.Conn()).forget()
		clear(connectionMonths(b.tx))
	}
	return err
}

func connectionMonths(q db.DBTX) map[time.Time]bool {
	var conn *pgx.Conn
	switch q := q.(type) {
	case alone:
		conn = q.conn
	case pgx.Tx:
		conn = q.Conn()
	default:
		return map[time.Time]bool{}
	}
	data := conn.PgConn().CustomData()
	known, ok := data[knownMonths].(map[time.Time]bool)
	if !ok {
		known = map[time.Time]bool{}
		data[knownMonths] = known
	}
	return known
}
