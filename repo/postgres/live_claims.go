package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/claim"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// queueOf is what news about a queue have: the digest of the namespace.
func queueOf(namespace string) (key [16]byte) {
	sum := sha256.Sum256([]byte(namespace))
	copy(key[:], sum[:])
	return key
}

// anyQueue is what claims of all namespaces wait for: no digest.
var anyQueue [16]byte

// claimEnded tells waiting callers of this process that a claim has ended: a limit may allow another one.
func (l *live) claimEnded(namespace string) { l.claims.Tell(queueOf(namespace), anyQueue) }

// queued says that plans of namespaces were queued, or may be claimed now.
func queued(namespaces ...string) []news {
	return convert.Each(namespaces, func(namespace string) news { return newsOf(aboutQueue, queueOf(namespace)) })
}

// claimOrWait holds no connection while it waits. If the database goes away meanwhile, it
// waits until that is back.
func (p *plans) claimOrWait(ctx context.Context, asked repo.Claim) (claimed []repo.ClaimedPlan, err error) {
	pool, ok := p.exec.(*pooled)
	if !ok {
		return nil, rules.CannotWait()
	}
	about := convert.Each(asked.Namespaces, queueOf)
	if asked.AllNamespaces {
		about = [][16]byte{anyQueue}
	}
	key, err := json.Marshal([]any{asked.Namespaces, asked.AllNamespaces, asked.Phases, asked.Actions})
	if err != nil {
		return nil, err
	}
	looked := false
	err = awaited(ctx, pool, pool.live.claims, string(key), asked, about, func() (bool, error) {
		claimed, err = p.claim(ctx, asked)
		if looked && errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil {
			return false, nil
		}
		looked = true
		return len(claimed) > 0, err
	})
	return claimed, err
}

// claimable implements follow.WaitersConfig.Poll.
func (l *live) claimable(ctx context.Context, claims []repo.Claim) ([]bool, error) {
	var params db.PlanClaimableParams
	var whose, anywhere []int // claims, by lane, and claims of all namespaces
	for i, asked := range claims {
		lanes := claim.LanesIn(asked, asked.Namespaces)
		namespaces, phases, actions, priorities := claim.LaneColumns(lanes)
		params.Namespaces, params.Phases = append(params.Namespaces, namespaces...), append(params.Phases, phases...)
		params.Actions, params.Priorities = append(params.Actions, actions...), append(params.Priorities, priorities...)
		for range lanes {
			whose = append(whose, i)
		}
		if asked.AllNamespaces {
			anywhere = append(anywhere, i)
		}
	}
	some := make([]bool, len(claims))
	err := l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		for _, i := range anywhere {
			namespaces, others, _, err := claim.LanesAnywhere(ctx, q, claims[i], "", 1)
			if some[i] = len(namespaces)+len(others) > 0; err != nil {
				return err
			}
		}
		places, err := queries.PlanClaimable(ctx, q, params)
		soon := time.Duration(-1)
		for _, row := range places {
			switch wait := convert.FromMicros(row.WaitMicros); {
			case wait == 0:
				some[whose[row.Place-1]] = true
			case soon < 0 || wait < soon:
				soon = wait
			}
		}
		if soon >= 0 { // before the next poll
			time.AfterFunc(soon, l.claims.Poke)
		}
		return err
	})
	return some, err
}
