package memory

import (
	"context"
	"errors"
	"io"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/document"
	"github.com/seed-df90f812/agentstore/repo"
)

// Export takes the session and all its messages under one lock, and writes
// after it.
func (s *sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	session, messages, err := s.whole(ctx, id)
	if err != nil {
		return err
	}
	linked := make([]repo.ID, len(session.Plans))
	for i, plan := range session.Plans {
		linked[i] = plan.ID
	}
	writer, err := document.NewWriter(ctxio.NewWriter(ctx, w), session, linked)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The writer only reads the message, so that it needs no copy.
		if err := writer.Write(*m); err != nil {
			return err
		}
	}
	return writer.Close()
}

func (s *sessions) whole(ctx context.Context, id repo.ID) (repo.Session, []*repo.Message, error) {
	v, err := s.at.read(ctx)
	if err != nil {
		return repo.Session{}, nil, err
	}
	defer s.at.unlock()
	r := v.find(id)
	if r == nil {
		return repo.Session{}, nil, notFound(id)
	}
	return r.snapshot(v), r.between(0, int64(len(r.messages))), nil
}

// Import reads the whole document before it takes the lock: what is not stored
// yet, nobody sees.
func (s *sessions) Import(ctx context.Context, source io.Reader) (repo.Session, error) {
	if err := s.check(ctx); err != nil {
		return repo.Session{}, err
	}
	r, linkedPlans, err := readRecord(ctx, source)
	if err != nil && ctx.Err() != nil {
		return repo.Session{}, ctx.Err()
	}
	if err != nil {
		return repo.Session{}, err
	}
	v, err := s.at.write(ctx)
	if err != nil {
		return repo.Session{}, err
	}
	defer s.at.unlock()
	if id := r.session.ID; v.find(id) != nil {
		return repo.Session{}, &repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.SessionConflict{ID: id}}
	}
	for i, planID := range linkedPlans {
		if v.plans().get(planID) == nil {
			return repo.Session{}, repo.MissingPlan(i, planID)
		}
	}
	v.insert(r)
	told(v, repo.EventSessionCreated, v.now(), r.session.Actor, r.session.ID, repo.ID{}, `{"imported":true}`)
	for _, planID := range linkedPlans {
		link(v, r.session.ID, planID)
	}
	return r.snapshot(v), nil
}

// check is whether the store can be used at all, before much work is done.
func (s *sessions) check(ctx context.Context) error {
	_, err := s.at.read(ctx)
	if err == nil {
		s.at.unlock()
	}
	return err
}

// readRecord makes a record of a document, and returns the plans it links.
func readRecord(ctx context.Context, source io.Reader) (*record, []repo.ID, error) {
	reader, err := document.NewReader(ctxio.NewReader(ctx, source))
	if err != nil {
		return nil, nil, err
	}
	r := &record{session: reader.Session()}
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		m, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return r, reader.LinkedPlans(), nil
		}
		if err != nil {
			return nil, nil, err
		}
		if r.message(m.ID) != nil {
			return nil, nil, &repo.ImportError{Field: "messages", Reason: "contain an id twice"}
		}
		r.add([]repo.Message{m})
	}
}
