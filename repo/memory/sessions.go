package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// sessions is repo.Sessions: sessions here, messages in the files beside.
type sessions struct{ *handle }

func (s sessions) counter() rules.TokenCounter {
	return rules.TokenCounter{Name: s.options.TokenCounter, Count: s.options.CountTokens}
}

// recordSession records an entry of a session's own life, unless that is switched off.
func (s sessions) recordSession(t *tables, now time.Time, entry repo.AuditEntry) {
	if !s.options.WithoutSessionAudit {
		t.recordEvent(now, entry)
	}
}

// insert stores a session whose id and key are not taken, and records that.
func (s sessions) insert(t *tables, r *sessionRow, now time.Time, details string) repo.Session {
	t.putSession(r)
	if r.Key != "" {
		t.byKey.put(r.sessionKey(), &r.ID)
	}
	t.wake(topic{id: r.ID})
	s.recordSession(t, now, repo.AuditEntry{
		Type: events.SessionCreated, Namespace: r.Namespace, Actor: r.Actor, SessionID: r.ID,
		Details: json.RawMessage(details),
	})
	return s.snapshot(t, r)
}

// taken returns the sessions with the id and with the key of a new one.
func (s sessions) taken(t *tables, given repo.NewSession) []repo.Session {
	rows := t.taken(given.ID, repo.SessionKey{Namespace: given.Namespace, Key: given.Key})
	return each(rows, func(r *sessionRow) repo.Session { return s.snapshot(t, r) })
}

func (s sessions) Create(ctx context.Context, given repo.NewSession) (repo.Session, error) {
	chosen := !given.ID.IsZero()
	given, err := rules.NormalizeSession(s.options.view, given)
	return run(ctx, unless(err, s.write), func(t *tables) (repo.Session, error) {
		if taken := s.taken(t, given); len(taken) > 0 {
			return rules.FoundSession(s.options.view, given, chosen, taken...)
		}
		now := t.now()
		r, err := t.newSession(given, now)
		if err != nil {
			return repo.Session{}, err
		}
		return s.insert(t, r, now, `{}`), nil
	})
}

func (s sessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	return runOn(ctx, s.read, s.session, id, func(t *tables, r *sessionRow) (repo.Session, error) {
		return s.snapshot(t, r), nil
	})
}

func (s sessions) Find(ctx context.Context, key repo.SessionKey) (repo.ID, error) {
	normal, err := rules.NormalizeKey(s.options.view, key)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.ID, error) {
		id := t.byKey.get(normal)
		if id == nil {
			return repo.ID{}, &repo.NotFoundError{Kind: "session", Name: normal.Key, Namespace: normal.Namespace}
		}
		return *id, nil
	})
}

func (s sessions) Update(ctx context.Context, id repo.ID, update repo.SessionUpdate) (repo.Session, error) {
	return runOn(ctx, unless(rules.CheckSessionUpdate(update), s.write), s.editSession, id,
		func(t *tables, r *sessionRow) (repo.Session, error) {
			if err := rules.SessionVersion(update, id, r.Version); err != nil {
				return repo.Session{}, err
			}
			metadata := update.Metadata
			if update.MetadataPatch != nil {
				var err error
				if metadata, err = rules.PatchMetadata(r.Metadata, update.MetadataPatch); err != nil {
					return repo.Session{}, err
				}
			}
			if update.Budget != nil && *update.Budget < r.Usage.Cost {
				return repo.Session{}, &repo.LimitExceededError{
					Kind: "budget", ID: id, Limit: int64(*update.Budget),
					Current: int64(r.Usage.Cost),
				}
			}
			set(&r.Actor, update.Actor)
			set(&r.AutomationProfile, update.AutomationProfile)
			set(&r.FencedOnly, update.FencedOnly)
			if metadata != nil {
				r.Metadata = bytes.Clone(metadata)
			}
			if update.Budget != nil || update.RemoveBudget {
				r.Budget = rules.ClonePointer(update.Budget)
			}
			r.Version++
			return s.snapshot(t, r), nil
		})
}

func (s sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	turn, err := rules.UsageTurn(id, add)
	if err != nil {
		return repo.Usage{}, err
	}
	added, err := run(ctx, s.write, func(t *tables) (repo.AppendedTurn, error) { return s.appendTurn(ctx, t, turn) })
	if err != nil {
		return repo.Usage{}, err
	}
	return *added.Usage, nil
}

func (s sessions) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) (repo.DeletedSession, error) {
	only, err := rules.DeleteIf(conditions)
	return runOn(ctx, unless(err, s.write), s.session, id, func(t *tables, r *sessionRow) (repo.DeletedSession, error) {
		if err := rules.Deletable(id, only, t.held(r.Namespace, r.Owner, id), t.inUse(r), r.Version, r.next(),
			r.idleSince()); err != nil {
			return repo.DeletedSession{}, err
		}
		deleted := repo.DeletedSession{Kept: t.kept(id), Plans: s.linkedPlans(t, r)}
		deleted.StateKeys = t.removeScope(repo.Scope{SessionID: id})
		t.expireStreams(func(row *streamRow) bool { return row.Session == id })
		deleted.Messages = int64(len(r.messages)) - deleted.Kept
		t.removeSession(r)
		details := fmt.Appendf(nil, `{"entity":"session","messages":%d,"plans":%d,"state_keys":%d}`,
			deleted.Messages+deleted.Kept, len(r.planIDs), deleted.StateKeys)
		s.recordSession(t, t.now(), repo.AuditEntry{
			Type: events.EntityDeleted, Namespace: r.Namespace, SessionID: id,
			Details: details,
		})
		return deleted, nil
	})
}
