package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Fork creates the session as Create does, and adds the row that says of what it is a fork. The counter row of the
// session that is forked is written, so that a deletion of that, at whatever isolation level, meets the fork.
func (s *sessions) Fork(ctx context.Context, id repo.ID, at int64, given repo.NewSession) (repo.Session, error) {
	chosen := !given.ID.IsZero()
	given, err := rules.NormalizeFork(s.view, at, given)
	if err = s.checkSession(ctx, id, err); err != nil {
		return repo.Session{}, err
	}
	var created repo.Session
	err = s.exec.atomically(ctx, func(q db.DBTX) error {
		found, err := conn.After(ctx, q,
			func(q db.DBTX) error { return queries.ForkLock(ctx, q, convert.UUID(id)) },
			func(q db.DBTX) (db.ForkFindRow, error) {
				return queries.ForkFind(ctx, q, db.ForkFindParams{At: at, ID: convert.UUID(id)})
			})
		switch {
		case err != nil:
			return conn.OrMissing(err, &conn.Answer{Err: convert.SessionNotFound(id)})
		case !found.Owner.Valid:
			return &conn.Answer{Err: rules.NoMessage(at)}
		case found.Depth >= rules.MaxForkDepth:
			return &conn.Answer{Err: rules.ForkTooDeep()}
		}
		params := s.createParams(given, chosen)
		params.NextSequence = at + 1
		row, err := createSession(ctx, q, params)
		if conn.IsNoRows(err) {
			created, err = s.forked(ctx, q, given, chosen, db.ForkIsOfParams{ParentID: found.Owner, Base: at + 1})
			return err
		}
		if err != nil {
			return err
		}
		created = rules.StoredSession(given, row.CreatedAt.UTC(), row.UpdatedAt.UTC())
		created.MessageCount = at + 1
		return queries.ForkInsert(ctx, q, db.ForkInsertParams{
			SessionID: convert.UUID(given.ID), ParentID: found.Owner,
			Base: at + 1, Depth: found.Depth + 1,
		})
	})
	if err != nil {
		return repo.Session{}, s.exec.noted(err)
	}
	s.exec.branch(created.ID)
	s.made(given, created.ID)
	return created, nil
}

// forked returns the answer for a fork that found an existing session, or that one with its id was deleted.
func (s *sessions) forked(ctx context.Context, q db.DBTX, given repo.NewSession, chosen bool,
	of db.ForkIsOfParams,
) (repo.Session, error) {
	in := &sessions{base: base{exec: bound{tx: q.(pgx.Tx)}, view: s.view}, audited: s.audited}
	stored, err := in.taken(ctx, given.ID, given.Namespace, given.Key)
	switch {
	case err != nil:
		return repo.Session{}, err
	case len(stored) == 0:
		created, err := in.existing(ctx, given, chosen)
		return created, asAnswer(err)
	}
	of.SessionID = convert.UUID(stored[0].ID)
	same, err := queries.ForkIsOf(ctx, q, of)
	if err != nil {
		return repo.Session{}, err
	}
	created, err := rules.Forked(s.view, given, chosen, same, stored...)
	return created, asAnswer(err)
}

// asAnswer marks an error that is not one of the database.
func asAnswer(err error) error {
	if err == nil {
		return nil
	}
	return &conn.Answer{Err: err}
}

func (s *sessions) Branches(ctx context.Context, sessionID repo.ID, sequence int64) ([]repo.Branch, error) {
	if err := s.checkSession(ctx, sessionID, rules.CheckSequence("sequence", sequence)); err != nil {
		return nil, err
	}
	rows, err := run(ctx, s.exec.read, queries.BranchList, db.BranchListParams{
		SessionID: convert.UUID(sessionID), Sequence: sequence, MaxRows: rules.MaxMarks + 1,
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, s.exec.noted(convert.SessionNotFound(sessionID))
	case rows[0].Parent == nil:
		return nil, rules.NoMessage(sequence)
	case len(rows) > rules.MaxMarks:
		return nil, rules.TooManyMarks()
	}
	first := rows[0]
	tree := rules.Tree{
		Parent: *first.Parent, Base: first.Base, Next: first.NextSequence,
		Head: rules.Head(first.Follows, first.NextSequence), Inherited: first.Inherited,
	}
	for _, row := range rows {
		if row.MarkSequence >= 0 {
			tree.Marks = append(tree.Marks, rules.Mark{Sequence: row.MarkSequence, Follows: row.MarkFollows})
		}
	}
	return tree.Branches(), nil
}
