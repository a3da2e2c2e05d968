package agentstore

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// AuditDoctor looks for what is wrong with the audit trail in the database, and
// says what to do about it: see [postgres.Store.AuditDoctor]. Errors: as a read's.
func (s *Store) AuditDoctor(ctx context.Context) ([]postgres.AuditFinding, error) {
	if store, ok := s.Store.(*postgres.Store); ok { // as Open made it
		return store.AuditDoctor(ctx)
	}
	return postgres.New(s.pool, postgres.Options{}).AuditDoctor(ctx)
}
