package approval

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval/approvaltest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Guarantee: Approvals: A request has one outcome, and is used once.
func TestApprovals(t *testing.T) {
	t.Parallel()
	approvaltest.Run(t, pgtest.NewStore(t, agentstore.Options{}), nil)
}
