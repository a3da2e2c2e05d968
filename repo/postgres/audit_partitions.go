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

// monthsAhead is the number of partitions that are created ahead, after the current
// month's.
const monthsAhead = 3

// monthsOf returns the beginnings of the entries' months, without duplicates.
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

// recordAudit makes sure that the months have partitions, and records the entries. It
// asks the server once for each month that is new to the connection. If a known
// partition has been dropped since, it is created again.
func recordAudit(ctx context.Context, q db.DBTX, params db.AuditRecordParams, months []time.Time) (written int64, err error) {
	known := monthsKnownTo(connOf(q)).known
	if err := makePartitions(ctx, q, months, known); err != nil {
		return 0, err
	}
	written, err = queries.AuditRecord(ctx, q, params)
	if !isNoPartition(err) {
		return written, err
	}
	clear(known)
	if _, transaction := q.(pgx.Tx); transaction {
		return 0, err // the error has aborted the transaction, which is run again
	}
	if err := makePartitions(ctx, q, months, known); err != nil {
		return 0, err
	}
	return queries.AuditRecord(ctx, q, params)
}

// makePartitions creates the partitions that are not known to exist.
func makePartitions(ctx context.Context, q db.DBTX, months []time.Time, known map[time.Time]bool) error {
	_, transaction := q.(pgx.Tx)
	for _, month := range months {
		if known[month] {
			continue
		}
		ahead := int32(0)
		// A caller's transaction creates none ahead: others that need them would
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
		case made > 0: // the transaction may be rolled back: ask the server each time
			known[month] = false
		case !doubtful: // it existed before this transaction
			known[month] = true
		}
	}
	return nil
}

// isNoPartition reports whether an audit entry's month has no partition.
func isNoPartition(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && lacksPartition(pgErr)
}

// lacksPartition reports whether the server found no partition. PostgreSQL's code for
// it is that of a check violation, without a constraint's name.
func lacksPartition(pgErr *pgconn.PgError) bool {
	return pgErr.Code == checkViolation && pgErr.ConstraintName == "" && strings.HasPrefix(pgErr.TableName, "audit_entries")
}

// mend creates the partitions of the current month and those after it if an operation
// failed because one was missing; the operation is then run again. The entries that
// the store records about its own operations always have the current time. It returns the
// error of creating them.
func (p *pooled) mend(ctx context.Context, err error) error {
	if !isNoPartition(err) {
		return nil
	}
	p.months.forget()
	return p.cover(ctx)
}

// causeOf returns an operation's error, or, if it is that a partition is missing, why that could
// not be created: it is no conflict then, after which the operation may be run again.
func causeOf(err, unmended error) error {
	var cause *storeError
	if !isNoPartition(err) || !errors.Is(err, repo.ErrContention) || !errors.As(unmended, &cause) {
		return err
	}
	if errors.Is(cause, repo.ErrUnavailable) || errors.Is(cause, repo.ErrPermission) || errors.Is(cause, repo.ErrSchema) {
		return cause
	}
	return err
}

// coverage is the time until which the months are known to have partitions. It is by
// this process's monotonic clock, since its wall clock may differ from the server's.
// The server makes sure of its current month, and of the month of a day later; the
// coverage ends a day before the later one does. It is safe for concurrent use.
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

// coverRetry is the number of seconds to the next attempt after partitions could not
// be created, for example by a read-only role.
const coverRetry = 60

// cover makes sure of the partitions that entries need from now on. It runs before
// the operation's transaction, so that what it creates is visible to everybody at
// once. Its error matters only if the operation records something.
func (p *pooled) cover(ctx context.Context) error {
	if p.months.lasts() {
		return nil
	}
	var row db.AuditCoverRow
	err := p.conns.run(ctx, committing, func(q db.DBTX) (err error) {
		row, err = queries.AuditCover(ctx, q, monthsAhead)
		return err
	})
	if err != nil {
		row.Seconds = coverRetry
	}
	if ctx.Err() == nil {
		p.months.set(row.Seconds)
	}
	return err
}

// connectionMonths is what is known on a connection about the months that have
// partitions. It is stored in the connection, because a caller's transaction may come
// without a store, and so that it ends with the connection. One goroutine uses a
// connection at a time.
type connectionMonths struct {
	coverage
	// unsure is when the transaction began that created a partition, and may be rolled
	// back. (A pgx.Tx may be a savepoint in it.)
	unsure time.Time
	// known has the months of recorded entries. True: the partition exists. False:
	// a transaction on this connection created it, and may have been rolled back.
	known map[time.Time]bool
}

const monthsKey = "agentstore.audit_months"

func monthsKnownTo(conn *pgx.Conn) *connectionMonths {
	data := conn.PgConn().CustomData()
	c, ok := data[monthsKey].(*connectionMonths)
	if !ok {
		c = &connectionMonths{known: map[time.Time]bool{}}
		data[monthsKey] = c
	}
	return c
}

// connOf returns the connection that q sends on: the pool's or a transaction's.
func connOf(q db.DBTX) *pgx.Conn {
	if a, ok := q.(alone); ok {
		return a.conn
	}
	return q.(pgx.Tx).Conn()
}

// cover makes sure of the partitions within a caller's transaction. They nearly always
// exist, and then it takes no lock. Otherwise everybody who needs a new partition, of
// any month, waits for the end of this transaction, at most 5 seconds.
func (b bound) cover(ctx context.Context) error {
	conn := b.tx.Conn()
	if conn == nil { // a test's transaction
		return nil
	}
	c := monthsKnownTo(conn)
	if c.lasts() {
		return nil
	}
	row, err := queries.AuditCover(ctx, b.tx, 0)
	switch {
	case err != nil:
		return translate(ctx, err, reading)
	case row.Made > 0:
		c.unsure = row.Began
	case !c.unsure.Equal(row.Began):
		c.set(row.Seconds)
		c.unsure = time.Time{}
	}
	return nil
}

// uncover forgets the known months if the error says that a partition is missing.
func (b bound) uncover(err error) error {
	if isNoPartition(err) && b.tx.Conn() != nil {
		c := monthsKnownTo(b.tx.Conn())
		c.forget()
		clear(c.known)
	}
	return err
}
