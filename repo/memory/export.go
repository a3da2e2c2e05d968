package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// Export takes the session and all its messages under one lock, and writes
// after it.
func (s sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	var version int64
	var values []*repo.StateValue
	stored, err := runOn(ctx, s.read, (*tables).session, id, func(t *tables, r *sessionRow) (sessionRow, error) {
		if state, err := t.scope(repo.Scope{SessionID: id}); err == nil && state != nil {
			version, values = state.version, state.from("", "")
		}
		return sessionRow{Session: r.snapshot(t), planIDs: r.planIDs, messages: slices.Clone(r.messages)}, nil
	})
	if err != nil {
		return err
	}
	writer, err := export.NewWriter(ctxio.NewWriter(ctx, w), stored.Session, stored.planIDs)
	if err != nil {
		return err
	}
	for _, m := range stored.messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The writer only reads the message, so that it needs no copy.
		if err := writer.Write(*m); err != nil {
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

// Import reads the whole document before it takes the lock. Until the session is
// stored nobody sees it.
func (s sessions) Import(ctx context.Context, source io.Reader, options repo.ImportOptions) (repo.Session, error) {
	if err := s.usable(ctx); err != nil {
		return repo.Session{}, err
	}
	r, state, err := readSession(ctx, source)
	if err != nil && ctx.Err() != nil {
		return repo.Session{}, ctx.Err()
	}
	if err != nil {
		return repo.Session{}, err
	}
	return run(ctx, s.write, func(t *tables) (repo.Session, error) {
		if taken := t.taken(r.ID, r.sessionKey()); len(taken) > 0 {
			return repo.Session{}, rules.ImportTaken(r.Session, taken[0].ID)
		}
		if !options.Restore && t.deletedIDs.get(r.ID) != nil {
			return repo.Session{}, rules.ImportDeleted(r.ID)
		}
		for i, planID := range r.planIDs {
			if t.plans.get(planID) == nil {
				return repo.Session{}, rules.MissingPlan(i, planID)
			}
		}
		t.insertSession(r)
		if state.version > 0 {
			t.scopes.put(repo.Scope{SessionID: r.ID}, state)
		}
		s.recordSession(t, t.now(), repo.AuditEntry{
			Type: repo.EventSessionCreated, Namespace: r.Namespace, Actor: r.Actor, SessionID: r.ID, Details: json.RawMessage(`{"imported":true}`),
		})
		return r.snapshot(t), nil
	})
}

// readSession converts a document to a session's row and that of its state.
func readSession(ctx context.Context, source io.Reader) (*sessionRow, *scopeRow, error) {
	reader, err := export.NewReader(ctxio.NewReader(ctx, source))
	if err != nil {
		return nil, nil, err
	}
	r := &sessionRow{Session: reader.Session()}
	r.activeAt = r.UpdatedAt
	state := &scopeRow{}
	reader.State = func(value repo.StateValue) error {
		state.values.put(value.Key, &value)
		return nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		m, err := reader.Next()
		if errors.Is(err, io.EOF) {
			r.planIDs = reader.LinkedPlans()
			state.version = reader.StateVersion()
			return r, state, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if r.byID.get(m.ID) != nil {
			return nil, nil, rules.MessageTwice()
		}
		r.add([]repo.Message{m})
	}
}
