package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// remover implements removal.Store.
type remover struct {
	exec     *pooled
	sessions *sessions
}

// Removal implements removal.Keeper.
func (s *Store) Removal() removal.Store { return &remover{s.exec, s.Sessions().(*sessions)} }

// forgetRows bounds the rows that one transaction replaces.
const forgetRows = 500

func (r *remover) RemoveTurns(ctx context.Context, from, before time.Time, limit int,
	dryRun bool,
) (removed, held int64, next time.Time, err error) {
	if limit, err = rules.CheckStreamRemoval(limit); err != nil {
		return 0, 0, next, err
	}
	if dryRun {
		row, err := run(ctx, r.exec.read, queries.TurnCountOld, before)
		return row.Removed, row.Held, next, err
	}
	params := db.TurnRemoveOldParams{NotBefore: from, Before: before, MaxRows: int32(limit)}
	for {
		row, err := afterGate(ctx, r.exec, func(q db.DBTX) (db.TurnRemoveOldRow, error) {
			return queries.TurnRemoveOld(ctx, q, params)
		})
		switch {
		case err != nil || row.Found < int64(params.MaxRows):
			return row.Removed, row.Held, time.Time{}, err
		case row.Removed > 0 || row.Reached.After(from):
			return row.Removed, row.Held, row.Reached.UTC(), nil
		}
		params.MaxRows *= 2 // all of these have one time, and are held
	}
}

func (r *remover) Idle(ctx context.Context, since map[string]time.Time) (sessions int64, longest time.Duration,
	err error,
) {
	namespaces, sinces := slices.Sorted(maps.Keys(since)), make([]time.Time, len(since))
	for i, namespace := range namespaces {
		sinces[i] = since[namespace]
	}
	err = r.exec.read(ctx, func(q db.DBTX) error {
		row, err := queries.SessionCountIdle(ctx, q, db.SessionCountIdleParams{Namespaces: namespaces, Sinces: sinces})
		sessions, longest = row.Sessions, time.Duration(row.Seconds*float64(time.Second))
		return err
	})
	return sessions, longest, err
}

// afterGate runs a statement that removes what a hold may keep: no hold begins meanwhile.
func afterGate[Answer any](ctx context.Context, exec executor,
	query func(db.DBTX) (Answer, error),
) (answer Answer, err error) {
	err = exec.atomically(ctx, func(q db.DBTX) (err error) {
		answer, err = conn.After(ctx, q, func(q db.DBTX) error { return queries.HoldGate(ctx, q) }, query)
		return err
	})
	return answer, err
}

func (r *remover) Forget(ctx context.Context, person removal.Person) (f removal.Forgotten, err error) {
	// Only the owner may begin a change of the trail.
	if err := r.exec.atomically(ctx, func(q db.DBTX) error { return queries.AuditPruneBegin(ctx, q) }); err != nil {
		return f, err
	}
	for _, name := range person.Names {
		if err := r.forgetName(ctx, name, person.Namespaces, &f); err != nil {
			return f, err
		}
		erase := db.AuditEraseParams{
			Names:      append([]string{}, person.Names...),
			Namespaces: append([]string{}, person.Namespaces...),
		}
		for _, filter := range []repo.AuditFilter{{Actor: name}, {User: name}, {Project: name}} {
			if err := r.forgetEntries(ctx, filter, erase, &f); err != nil {
				return f, err
			}
		}
	}
	about := db.AuditEraseParams{Names: append([]string{}, person.Names...), Namespaces: []string{}, AboutThem: true}
	for _, id := range person.Plans {
		if err := r.forgetEntries(ctx, repo.AuditFilter{PlanID: id}, about, &f); err != nil {
			return f, err
		}
	}
	messages, err := r.withImported(ctx, person.Sessions)
	if err != nil {
		return f, err
	}
	for _, id := range messages {
		if err := r.forgetMessages(ctx, id, &f); err != nil {
			return f, err
		}
	}
	for _, id := range person.Sessions {
		if err := r.forgetEntries(ctx, repo.AuditFilter{SessionID: id}, about, &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

// withImported adds the ids of what came with imports of forks.
func (r *remover) withImported(ctx context.Context, sessions []repo.ID) ([]repo.ID, error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	imported, err := run(ctx, r.exec.read, queries.ForkImported, convert.UUIDs(sessions))
	return slices.Concat(sessions, convert.Each(imported, func(id pgtype.UUID) repo.ID { return id.Bytes })), err
}

func (r *remover) Kept(ctx context.Context, sessions []repo.ID) (own, all int64, err error) {
	ids, err := r.withImported(ctx, sessions)
	for i := 0; err == nil && i < len(ids); i++ {
		var kept int64
		kept, err = run(ctx, r.exec.read, queries.ForkKept, convert.UUID(ids[i]))
		if all += kept; i < len(sessions) {
			own += kept
		}
	}
	return own, all, err
}

func (r *remover) forgetName(ctx context.Context, name string, in []string, f *removal.Forgotten) error {
	in = append([]string{}, in...)
	plans := db.PlanForgetParams{Name: name, Namespaces: in, AfterID: convert.UUID(repo.ID{}), MaxRows: forgetRows}
	for plans.AfterID.Valid {
		row, err := afterGate(ctx, r.exec, func(q db.DBTX) (db.PlanForgetRow, error) {
			return queries.PlanForget(ctx, q, plans)
		})
		if err != nil {
			return err
		}
		f.Add(removal.Forgotten{Events: row.Events, Altered: row.Altered, Held: row.Held, Live: row.Live})
		plans.AfterID = row.Reached
	}
	quarantine := db.AuditQuarantineForgetParams{
		Quoted: quotedJSON(name),
		Members: convert.Each(in, func(namespace string) []byte {
			return append([]byte(`"namespace":`), quotedJSON(namespace)...)
		}), Without: slices.Contains(in, repo.DefaultNamespace),
	}
	var actions, streams, leases, quarantined int64
	err := r.exec.atomically(ctx, func(q db.DBTX) error {
		p := &conn.Pipeline{}
		conn.Ask(ctx, p, &actions, queries.ActionForget, db.ActionForgetParams{Name: name, Namespaces: in})
		conn.Ask(ctx, p, &streams, queries.StreamForget, db.StreamForgetParams{Owner: name, Namespaces: in})
		conn.Ask(ctx, p, &leases, queries.LeaseForget, db.LeaseForgetParams{Name: name, Namespaces: in})
		conn.Ask(ctx, p, &quarantined, queries.AuditQuarantineForget, quarantine)
		return p.Send(ctx, q)
	})
	f.Add(removal.Forgotten{Actions: actions, Streams: streams, Named: leases, Quarantined: quarantined})
	return err
}

func quotedJSON(text string) []byte {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // it marshals all texts
	return quoted
}

// forgetEntries erases fields of the entries that filter selects, a page at a time.
func (r *remover) forgetEntries(ctx context.Context, filter repo.AuditFilter, params db.AuditEraseParams,
	f *removal.Forgotten,
) error {
	filter.OldestFirst = true
	filter, err := rules.NormalizeAuditFilter(filter)
	if err != nil { // no entry has such a name
		return nil //nolint:nilerr // it is the owner of a session, whose name may be longer
	}
	return (&audit{r.sessions.base}).pages(ctx, filter, forgetRows, func(rows []db.AuditEntry) error {
		params.Ids = convert.Each(rows, func(row db.AuditEntry) pgtype.UUID { return row.ID })
		var row db.AuditEraseRow
		err := r.exec.atomically(ctx, func(q db.DBTX) (err error) {
			row, err = conn.After(ctx, q, func(q db.DBTX) error { return queries.AuditPruneBegin(ctx, q) },
				func(q db.DBTX) (db.AuditEraseRow, error) { return queries.AuditErase(ctx, q, params) })
			return err
		})
		if err == nil {
			f.Add(removal.Forgotten{Entries: row.Erased, Held: row.Held})
		}
		return err
	})
}

func (r *remover) forgetMessages(ctx context.Context, id repo.ID, f *removal.Forgotten) error {
	params := db.MessageEraseParams{ID: convert.UUID(id), AfterSequence: -1, MaxRows: forgetRows}
	for {
		row, err := afterGate(ctx, r.exec, func(q db.DBTX) (db.MessageEraseRow, error) {
			return queries.MessageErase(ctx, q, params)
		})
		if err == nil && row.Held {
			err = rules.HeldMessages(id)
		}
		if f.Texts += row.Erased; err != nil || row.Erased < forgetRows {
			return err
		}
		params.AfterSequence = row.Reached
	}
}

func (r *remover) Left(ctx context.Context) (bool, error) {
	return ask(ctx, r.exec.read, func(q db.DBTX) (bool, error) { return queries.RemovalLeft(ctx, q) })
}

func (r *remover) HeldFork(ctx context.Context, owner string, namespaces []string) (repo.ID, error) {
	id, err := run(ctx, r.exec.read, queries.ForkHeld, db.ForkHeldParams{Owner: owner, Namespaces: namespaces})
	if conn.IsNoRows(err) {
		return repo.ID{}, nil
	}
	return id.Bytes, err
}

func (r *remover) Made(ctx context.Context, sessions []repo.ID) ([]repo.ID, error) {
	rows, err := run(ctx, r.exec.read, queries.PlanListMade, convert.UUIDs(sessions))
	return convert.Each(rows, func(id pgtype.UUID) repo.ID { return id.Bytes }), err
}

func (r *remover) Judge(ctx context.Context, sessions []repo.ID) ([]removal.Judgement, error) {
	rows, err := run(ctx, r.exec.read, queries.SessionJudge, convert.Each(sessions, convert.UUID))
	return convert.Each(rows, func(row db.SessionJudgeRow) removal.Judgement {
		return removal.Judgement{ID: row.ID.Bytes, Held: row.Held, InUse: row.InUse, Inherited: row.Inherited}
	}), err
}

func (r *remover) Namespaces(ctx context.Context) ([]string, error) {
	found, err := ask(ctx, r.exec.read, func(q db.DBTX) ([]string, error) { return queries.NamespacesOfAll(ctx, q) })
	return slices.DeleteFunc(found, func(namespace string) bool { return namespace == limits.PlacesNamespace }), err
}

func (r *remover) Has(ctx context.Context, namespace string) (bool, error) {
	return run(ctx, r.exec.read, queries.NamespaceHas, namespace)
}

func (r *remover) Names(ctx context.Context, after removal.Name) ([]removal.Name, error) {
	rows, err := run(ctx, r.exec.read, queries.NameList, db.NameListParams{AfterScope: after.Scope, AfterName: after.Name})
	return convert.Each(rows, func(row db.NameListRow) removal.Name { return removal.Name(row) }), err
}
