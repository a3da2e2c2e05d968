package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

var queries = db.New()

// sessions implements repo.Sessions. Messages are in messages.go and append.go, usage
// is in usage.go.
type sessions struct {
	base
	// audited: what happens to sessions themselves is recorded in the audit trail.
	audited bool
	counter rules.TokenCounter
}

func (s *sessions) Create(ctx context.Context, given repo.NewSession) (repo.Session, error) {
	chosen := !given.ID.IsZero()
	given, err := rules.NormalizeSession(s.view, given)
	if err != nil {
		return repo.Session{}, err
	}
	for attempt := 1; ; attempt++ {
		created, err := s.create(ctx, given, chosen)
		if conn.IsNoRows(err) || errors.Is(err, errExists) {
			created, err = s.existing(ctx, given, chosen)
		}
		if err == nil {
			s.made(given, created.ID)
		}
		// It was deleted between the two statements.
		if !errors.Is(err, errVanished) || !conn.Pause(ctx, attempt) {
			return created, err
		}
		if !chosen { // the session may have been an earlier attempt's
			given.ID = repo.NewID()
		}
	}
}

// made notes that a session exists.
func (s *sessions) made(given repo.NewSession, id repo.ID) {
	if given.Key != "" {
		s.exec.learn(repo.SessionKey{Namespace: given.Namespace, Key: given.Key}, id)
	}
	s.learn("session", id)
}

var (
	// errExists: a session that must be new exists.
	errExists = errors.New("exists already")
	// errEarlierAttempt: it exists, and an attempt whose answer was lost may have
	// created it.
	errEarlierAttempt = errors.New("it exists, and an earlier attempt may have created it")
	// errVanished: a session exists when it is to be created, and not when it is looked for.
	errVanished = errors.New("others create the session and delete it again and again")
)

// create returns pgx.ErrNoRows or errExists if a session exists, or was deleted.
func (s *sessions) create(ctx context.Context, given repo.NewSession, chosen bool) (repo.Session, error) {
	row, err := ask(ctx, s.exec.writeByID, func(q db.DBTX) (db.SessionCreateRow, error) {
		row, err := createSession(ctx, q, s.createParams(given, chosen))
		if conn.IsNoRows(err) && chosen && given.Existing == repo.ExistingNone {
			err = &conn.Answer{Err: errExists}
		}
		return row, err
	})
	if err != nil {
		return repo.Session{}, err
	}
	return rules.StoredSession(given, row.CreatedAt.UTC(), row.UpdatedAt.UTC()), nil
}

// createSession sends SessionCreate.
func createSession(ctx context.Context, q db.DBTX, params db.SessionCreateParams) (db.SessionCreateRow, error) {
	row, err := queries.SessionCreate(ctx, q, params)
	return row, ifDeletedMeanwhile(err)
}

// ifDeletedMeanwhile converts the error of a statement that was creating a session with a chosen
// id while the session that had it was being deleted. The next attempt finds that.
func ifDeletedMeanwhile(err error) error {
	if conn.Violates(err, convert.UniqueChosenID) {
		return &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	}
	return err
}

func (s *sessions) createParams(given repo.NewSession, chosen bool) db.SessionCreateParams {
	return db.SessionCreateParams{
		ID: convert.UUID(given.ID), Namespace: given.Namespace, Key: convert.Nullable(given.Key),
		Owner: convert.Nullable(given.Owner), Actor: convert.Nullable(given.Actor),
		AutomationProfile: convert.Nullable(given.AutomationProfile), Metadata: string(given.Metadata),
		BudgetNanos: (*int64)(given.Budget), Chosen: chosen, FencedOnly: given.FencedOnly, Audited: s.audited,
	}
}

// existing returns the answer for a creation that found a session with its id or its key, or
// that one with its id was deleted.
func (s *sessions) existing(ctx context.Context, given repo.NewSession, chosen bool) (repo.Session, error) {
	stored, err := s.taken(ctx, given.ID, given.Namespace, given.Key)
	if err != nil {
		return repo.Session{}, s.exec.unread(err)
	}
	if len(stored) > 0 {
		return rules.FoundSession(s.view, given, chosen, stored...)
	}
	if chosen {
		deleted, err := s.wasDeleted(ctx, given.ID)
		switch {
		case err != nil:
			return repo.Session{}, s.exec.unread(err)
		case deleted:
			return repo.Session{}, rules.SessionDeleted(given.ID)
		}
	}
	return repo.Session{}, &conn.Error{Sentinel: repo.ErrContention, Cause: errVanished}
}

// taken returns the sessions with an id and with a key, unless that is empty.
func (s *sessions) taken(ctx context.Context, id repo.ID, namespace, key string) ([]repo.Session, error) {
	rows, err := run(ctx, s.exec.read, queries.SessionListTaken, db.SessionListTakenParams{
		ID: convert.UUID(id), Namespace: namespace, Key: convert.Nullable(key),
	})
	return convert.Each(rows, func(row db.SessionListTakenRow) repo.Session {
		return convert.Session(s.view, db.SessionGetRow(row))
	}), err
}

// wasDeleted reports whether a session that does not exist was deleted.
func (s *sessions) wasDeleted(ctx context.Context, id repo.ID) (bool, error) {
	return run(ctx, s.exec.read, queries.SessionWasDeleted, db.SessionWasDeletedParams{
		ID:        convert.UUID(id),
		OtherThan: nil,
	})
}

func (s *sessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	row, err := run(ctx, s.exec.read, queries.SessionGet, convert.UUID(id))
	if err != nil {
		return repo.Session{}, s.orMissing(err, id)
	}
	if err := s.found("session", id, row.Session.Namespace, nil); err != nil {
		return repo.Session{}, err
	}
	return convert.Session(s.view, row), nil
}

// orMissing is the error of a statement whose lack of rows means that the session is missing.
func (s *sessions) orMissing(err error, id repo.ID) error {
	return s.exec.noted(conn.OrMissing(err, convert.SessionNotFound(id)))
}

func (s *sessions) Update(ctx context.Context, id repo.ID, update repo.SessionUpdate) (repo.Session, error) {
	if err := s.checkSession(ctx, id, rules.CheckSessionUpdate(update)); err != nil {
		return repo.Session{}, err
	}
	row, err := s.update(ctx, update, db.SessionUpdateParams{
		ID: convert.UUID(id), SetActor: update.Actor != nil, Actor: convert.Optional(update.Actor),
		SetAutomationProfile: update.AutomationProfile != nil,
		AutomationProfile:    convert.Optional(update.AutomationProfile), Metadata: convert.JSONText(update.Metadata),
		SetBudget: update.Budget != nil || update.RemoveBudget, BudgetNanos: (*int64)(update.Budget),
		IfVersion: update.IfVersion, FencedOnly: update.FencedOnly,
	})
	if err != nil {
		return repo.Session{}, s.orMissing(err, id)
	}
	if !row.Current {
		return repo.Session{}, rules.SessionVersion(update, id, row.Version)
	}
	if !row.Fits {
		return repo.Session{}, &repo.LimitExceededError{
			Kind: "budget", ID: id, Limit: int64(*update.Budget),
			Current: int64(repo.Cost(row.CostNanos)),
		}
	}
	return convert.Session(s.view, db.SessionGetRow{
		Session: db.Session{
			ID: row.ID, Namespace: row.Namespace, Key: row.Key, Owner: row.Owner, Version: row.Version, Actor: row.Actor,
			AutomationProfile: row.AutomationProfile, Metadata: row.Metadata, InputTokens: row.InputTokens,
			OutputTokens: row.OutputTokens,
			CostNanos:    row.CostNanos, BudgetNanos: row.BudgetNanos, CreatedAt: row.CreatedAt,
		},
		ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly, Plans: row.Plans,
	}), nil
}

// update sends an update. A patch of the metadata is applied to what is read under the
// session's lock. The counter row, which says whether writes need a fence, is locked before
// the session, as turns do.
func (s *sessions) update(ctx context.Context, update repo.SessionUpdate,
	params db.SessionUpdateParams,
) (row db.SessionUpdateRow, err error) {
	if update.MetadataPatch == nil && update.FencedOnly == nil {
		return run(ctx, s.exec.write, queries.SessionUpdate, params)
	}
	err = s.exec.atomically(ctx, func(q db.DBTX) error {
		if update.FencedOnly != nil {
			if _, err := queries.SessionLock(ctx, q, params.ID); err != nil {
				return err
			}
		}
		if update.MetadataPatch == nil {
			row, err = queries.SessionUpdate(ctx, q, params)
			return err
		}
		stored, err := queries.SessionMetadataLock(ctx, q, params.ID)
		if err != nil {
			return err
		}
		if err := rules.SessionVersion(update, params.ID.Bytes, stored.Version); err != nil {
			return &conn.Answer{Err: err}
		}
		metadata, err := rules.PatchMetadata(stored.Metadata, update.MetadataPatch)
		if err != nil {
			return &conn.Answer{Err: err}
		}
		params.Metadata = convert.JSONText(metadata)
		row, err = queries.SessionUpdate(ctx, q, params)
		return err
	})
	return row, err
}
