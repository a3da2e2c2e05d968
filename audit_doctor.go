package agentstore

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// AuditDoctor checks the audit trail's tables, triggers, rights and sealing, and
// says how to correct what is wrong: see [postgres.Store.AuditDoctor]. The
// errors are those of reading; repo.ErrInvalid for a store in memory.
func (s *Store) AuditDoctor(ctx context.Context) ([]repo.AuditFinding, error) {
	store, ok := s.Store.(*postgres.Store)
	if !ok {
		return nil, &repo.InvalidError{Field: "store", Reason: "is in memory, where there is nothing to check"}
	}
	return store.AuditDoctor(ctx)
}
