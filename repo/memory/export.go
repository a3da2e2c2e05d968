package memory

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Export takes the session and all its messages under one lock, and writes
// after it.
func (s sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	var version int64
	var values []*repo.StateValue
	stored, err := runOn(ctx, s.read, s.session, id, func(t *tables, r *sessionRow) (sessionRow, error) {
		state := t.scopeOf(repo.Scope{SessionID: id})
		version, values = state.version, state.from("", "")
		session := s.snapshot(t, r)
		linked := each(session.Plans, func(p repo.LinkedPlan) repo.ID { return p.ID })
		return sessionRow{
			Session: session, planIDs: linked, messages: slices.Clone(r.all()), inherited: r.inherited,
			follows: r.follows,
		}, nil
	})
	if err != nil {
		return err
	}
	writer, err := export.NewWriter(ctxio.NewWriter(ctx, w), stored.Session, stored.planIDs,
		export.History{Base: stored.base(), Head: stored.follows})
	if err != nil {
		return err
	}
	for _, m := range stored.messages {
		// The writer only reads the message, so that it needs no copy.
		message := *m
		message.SessionID = id
		if err := cmp.Or(ctx.Err(), writer.Write(message)); err != nil {
			return err
		}
	}
	if version > 0 {
		if err := writer.BeginState(version); err != nil {
			return err
		}
	}
	for _, value := range values {
		if err := cmp.Or(ctx.Err(), writer.WriteState(*value)); err != nil {
			return err
		}
	}
	return writer.Close()
}

// Import reads the whole document before it takes the lock. The session is
// invisible until it is stored.
func (s sessions) Import(ctx context.Context, source io.Reader, restore bool) (repo.Session, error) {
	if err := s.usable(ctx); err != nil {
		return repo.Session{}, err
	}
	r, state, err := readSession(ctx, source)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return run(ctx, unless(err, s.write), func(t *tables) (repo.Session, error) {
		if err := rules.ImportInView(s.options.view, r.Session); err != nil {
			return repo.Session{}, err
		}
		if taken := t.taken(r.ID, r.sessionKey()); len(taken) > 0 {
			return repo.Session{}, rules.ImportTaken(r.Session, taken[0].ID)
		}
		if deleted := t.deletedIDs.get(r.ID); deleted != nil && (!restore || *deleted != r.Namespace) {
			return repo.Session{}, rules.ImportDeleted(r.ID)
		}
		if t.kept(r.ID) > 0 {
			return repo.Session{}, rules.ImportForked(r.ID)
		}
		for i, planID := range r.planIDs {
			if _, err := s.plan(t, planID); err != nil {
				return repo.Session{}, rules.MissingPlan(i, planID)
			}
		}
		if len(r.inherited) > 0 {
			t.importers.put(r.inherited[0].SessionID, &r.ID)
			t.deletedIDs.put(r.inherited[0].SessionID, &r.Namespace)
		}
		if state.version > 0 {
			t.scopes.put(repo.Scope{SessionID: r.ID}, state)
		}
		r.importedAt = t.now()
		return s.insert(t, r, r.importedAt, `{"imported":true}`), nil
	})
}

// readSession converts a document to a session's row and its state's row.
func readSession(ctx context.Context, source io.Reader) (*sessionRow, *scopeRow, error) {
	reader, err := export.NewReader(ctxio.NewReader(ctx, source))
	if err != nil {
		return nil, nil, err
	}
	r := &sessionRow{Session: reader.Session()}
	other, inherited := repo.NewID(), map[repo.ID]bool{} // of a session that does not exist
	for {
		m, err := reader.Next()
		if err = cmp.Or(ctx.Err(), err); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if m.Sequence < reader.History().Base {
			if inherited[m.ID] {
				return nil, nil, rules.MessageTwice()
			}
			m.SessionID, inherited[m.ID] = other, true
			r.inherited = append(r.inherited, &m)
			continue
		}
		if r.byID.get(m.ID) != nil {
			return nil, nil, rules.MessageTwice()
		}
		if m.Follows != m.Sequence-1 {
			r.follows = &m.Follows
		}
		r.add([]repo.Message{m})
	}
	r.planIDs, r.follows = reader.LinkedPlans(), reader.History().Head
	state := &scopeRow{version: reader.StateVersion()}
	for {
		value, err := reader.NextValue()
		if err = cmp.Or(ctx.Err(), err); errors.Is(err, io.EOF) {
			return r, state, nil
		}
		if err != nil {
			return nil, nil, err
		}
		state.values.put(value.Key, &value)
	}
}
