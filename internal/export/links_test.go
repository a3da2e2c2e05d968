package export_test

import (
	"errors"
	"io"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

// A session may be linked to more plans than a document may name. The error is one that
// callers can tell apart.
func TestTooManyLinks(t *testing.T) {
	ids := make([]repo.ID, 100_001)
	for i := range ids {
		ids[i] = repo.NewID()
	}
	if _, err := export.NewWriter(io.Discard, repo.Session{}, ids); !errors.Is(err, repo.ErrLimit) {
		t.Errorf("%v", err)
	}
}
