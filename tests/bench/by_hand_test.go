package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/repo"
)

// byHand claims and completes plans by a statement each, which writes the rows that the store writes: what a team's own
// layer on the same tables would do, without groups, limits, or claims that expire.
type byHand struct{ plans }

const (
	claimByHand = `WITH next AS (
			SELECT p.id, p.namespace, p.action_name, p.version, p.attempt, p.max_attempts FROM plans p WHERE p.id = (
				SELECT q.plan_id FROM plan_queue q WHERE q.namespace = $1 AND q.phase = 'strategize' AND q.priority = 0
				ORDER BY q.since, q.plan_id FOR UPDATE SKIP LOCKED LIMIT 1
			) AND p.state = 'queued' FOR NO KEY UPDATE
		), moved AS (
			UPDATE plans p SET state = 'processing', version = n.version + 1, fence = 1, updated_at = statement_timestamp()
			FROM next n WHERE p.id = n.id
		), leased AS (
			INSERT INTO leases (namespace, kind, name, owner, fence, acquired_at, expires_at)
			SELECT 'local', 'plan', n.id::text, $2, 1, statement_timestamp(), statement_timestamp() + interval '5 minutes' FROM next n
		), noted AS (
			INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, attempt, max_attempts, check_at)
			SELECT n.id, n.namespace, n.action_name, 'strategize', $2, n.attempt, n.max_attempts, statement_timestamp() + interval '5 minutes' FROM next n
		), remembered AS (
			INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor)
			SELECT n.id, n.version + 1, 'start', 'strategize', 'queued', 'strategize', 'processing', $2 FROM next n
		), told AS (
			INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
			SELECT statement_timestamp(), gen_random_uuid(), 'plan_phase_changed', n.namespace, $2, n.id, '{"transition":"start"}' FROM next n
		)
		SELECT n.id, n.version + 1 FROM next n`
	completeByHand = `WITH moved AS (
			UPDATE plans p SET state = 'complete', version = $2::bigint + 1, updated_at = statement_timestamp()
			WHERE p.id = $1 AND p.version = $2 AND p.state = 'processing' RETURNING p.id, p.namespace
		), freed AS (
			DELETE FROM leases WHERE namespace = 'local' AND kind = 'plan' AND name = $1::text
		), remembered AS (
			INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor)
			SELECT m.id, $2 + 1, 'complete', 'strategize', 'processing', 'strategize', 'complete', $3 FROM moved m
		)
		INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
		SELECT statement_timestamp(), gen_random_uuid(), 'plan_phase_changed', m.namespace, $3, m.id, '{"transition":"complete"}' FROM moved m`
)

func (h byHand) work(b *testing.B, workers int, done func(worked)) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var working sync.WaitGroup
	for n := range workers {
		working.Go(func() {
			owner := fmt.Sprint("worker ", n)
			for ctx.Err() == nil {
				var id [16]byte
				var version int64
				err := h.store.Pool().QueryRow(ctx, claimByHand, repo.DefaultNamespace, owner).Scan(&id, &version)
				at := time.Now()
				switch {
				case errors.Is(err, pgx.ErrNoRows):
					continue
				case err == nil:
					_, err = h.store.Pool().Exec(context.WithoutCancel(ctx), completeByHand, id, version, owner)
				}
				if err == nil {
					done(worked{repo.ID(id), at})
				} else if ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}
