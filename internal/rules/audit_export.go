package rules

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/repo"
)

// AuditExport writes an export: a line of JSON for each entry.
type AuditExport struct {
	out     *bufio.Writer
	encoder *json.Encoder
}

// NewAuditExport returns an export to w. It writes in large pieces, and does not
// wait for w once ctx has ended.
func NewAuditExport(ctx context.Context, w io.Writer) *AuditExport {
	out := bufio.NewWriterSize(ctxio.NewWriter(ctx, w), 64<<10)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &AuditExport{out, encoder}
}

// Write writes an entry.
func (x *AuditExport) Write(e repo.AuditEntry) error { return x.encoder.Encode(e) }

// Close writes the remaining lines.
func (x *AuditExport) Close() error { return x.out.Flush() }
