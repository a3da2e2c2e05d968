package repo

import (
	"context"
	"io"
)

// Audit reads and records the audit trail, in a transaction with the change.
//
// Errors of all methods: InvalidError, before anything is sent.
type Audit interface {
	// Record records all of the entries or none. It does not redact; package audit does. Errors: ExistsError for the id of
	// an entry with another content; ErrUnknownOutcome: recording them again is safe.
	Record(ctx context.Context, entries ...AuditEntry) error

	// Entry returns one entry. Errors: NotFoundError.
	Entry(ctx context.Context, id ID) (AuditEntry, error)
	// List returns one page of the entries that filter selects.
	List(ctx context.Context, filter AuditFilter, page Page) (List[AuditEntry], error)
	// Count counts the entries that filter selects up to limit, at most 1,000,000 (zero: 10,000).
	Count(ctx context.Context, filter AuditFilter, limit int) (count int64, more bool, err error)
	// Export writes the entries that filter selects as JSON lines, oldest first, in bounded memory: see Sessions.Export.
	Export(ctx context.Context, filter AuditFilter, w io.Writer) error
}
