package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Sink opens a separate connection, so that the audit trail neither waits for an
// exhausted pool nor takes connections from it.
func (a *auditStore) Sink(ctx context.Context) (auditlog.Sink, error) {
	if err := a.exec.enter(ctx); err != nil {
		return nil, err
	}
	defer a.exec.gate.leave()
	s := &sink{config: a.exec.conns.Pool.Config()}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// sink is auditlog.Sink. One goroutine uses it at a time.
type sink struct {
	config *pgxpool.Config
	conn   *pgx.Conn
	closed bool
}

func (s *sink) connect(ctx context.Context) error {
	if s.closed {
		return repo.ErrClosed
	}
	if s.conn != nil && !s.conn.IsClosed() {
		return conn.Fits(s.conn)
	}
	pg, err := conn.Dial(ctx, s.config, func(*pgx.ConnConfig) {})
	if err != nil {
		return conn.Translate(ctx, err, conn.Unsent)
	}
	if err := conn.Fits(pg); err != nil {
		conn.Close(ctx, pg)
		return err
	}
	s.conn = pg
	return nil
}

// failed translates an error. It closes the connection if its server takes no writes, for example
// after a failover: the next connection may reach a server that takes them.
func (s *sink) failed(ctx context.Context, err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == conn.ReadOnlyTransaction ||
		conn.EndsConnection(pgErr)) {
		_ = s.conn.Close(ctx)
	}
	return conn.Meaning(ctx, err, conn.Committing)
}

func (s *sink) Record(ctx context.Context, entries []repo.AuditEntry) (auditlog.Recorded, error) {
	normal, err := rules.NormalizeEntries("", entries)
	if err != nil {
		return auditlog.Recorded{}, err
	}
	distinct, err := rules.DistinctEntries(normal)
	if err != nil {
		return auditlog.Recorded{}, err
	}
	if err := s.connect(ctx); err != nil {
		return auditlog.Recorded{}, err
	}
	written, err := recordAudit(ctx, conn.Alone{Conn: s.conn}, distinct)
	if err != nil {
		return auditlog.Recorded{}, s.failed(ctx, err)
	}
	return auditlog.Recorded{Written: int(written), Known: len(normal) - int(written)}, nil
}

func (s *sink) Quarantine(ctx context.Context, poison auditlog.Poison) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	err := queries.AuditQuarantine(ctx, conn.Alone{Conn: s.conn}, db.AuditQuarantineParams{
		ID: convert.UUID(poison.ID), Document: poison.Document, Reason: poison.Reason,
	})
	return s.failed(ctx, err)
}

func (s *sink) Close() error {
	s.closed = true
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), conn.RollbackTimeout)
	defer cancel()
	if err := s.conn.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return conn.Translate(ctx, err, conn.Reading)
	}
	return nil
}
