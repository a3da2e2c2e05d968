package migrate

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The version of kinds is not reverted while a message has one, or a call, unless that
// may be lost; nor, ever, while there is a message that the version before refuses.
func TestDownOfMessageKinds(t *testing.T) {
	t.Parallel()
	const version = 9
	for name, test := range map[string]struct {
		columns, values string
		never           bool
	}{
		"kind":      {"role, content, kind", "'user', 'x', 'k'", false},
		"call":      {"role, content, call_id", "'user', 'x', 'c'", false},
		"developer": {"role, content", "'developer', 'x'", true},
		"payload":   {"role, content, payload", `'assistant', '', '\x00'`, true},
		"metadata":  {"role, content, metadata", `'assistant', '', '{"a":1}'`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewEmptyDatabase(t)
			if _, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetUp(version)); err != nil {
				t.Fatal(err)
			}
			conn := pgtest.Connect(t, databaseURL)
			pgtest.Exec(t, conn, insertSession)
			pgtest.Exec(t, conn, "INSERT INTO session_counters (session_id, next_sequence) SELECT id, 1 FROM sessions")
			pgtest.Exec(t, conn, "INSERT INTO messages (session_id, sequence, id, "+test.columns+") SELECT id, 0, id, "+test.values+" FROM sessions")
			before := catalog(t, conn)
			for _, allowed := range []bool{false, true} {
				_, err := open(t, databaseURL, schema.Options{AllowDataLoss: allowed}).Run(t.Context(), schema.TargetDownSteps(1))
				switch {
				case !allowed || test.never:
					if !errors.Is(err, schema.ErrDataLoss) {
						t.Errorf("data loss allowed is %v: %v", allowed, err)
					}
					equalCatalogs(t, "refused", catalog(t, conn), before)
				case err != nil:
					t.Error(err)
				}
				if got := pgtest.Value[int64](t, conn, "SELECT count(*) FROM messages"); got != 1 {
					t.Errorf("%d messages are left of 1", got)
				}
			}
		})
	}
}

// Writers lock session_counters and messages in either order. So no version waits for
// one of them while it has locked the other.
func TestVersionsLockOneTableOfWriters(t *testing.T) {
	t.Parallel()
	for version, other := range map[int64]string{9: "session_counters", 10: "messages"} {
		databaseURL := pgtest.NewEmptyDatabase(t)
		migrator := open(t, databaseURL, schema.Options{})
		if _, err := migrator.Run(t.Context(), schema.TargetUp(version-1)); err != nil {
			t.Fatal(err)
		}
		tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, tx, "LOCK TABLE "+other+" IN ROW EXCLUSIVE MODE")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := migrator.Run(ctx, schema.TargetUp(version)); err != nil {
			t.Errorf("version %d beside a writer of %s: %v", version, other, err)
		}
		cancel()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
