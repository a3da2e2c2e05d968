package write

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// read adds the statements that read what the turns depend on. They come after the
// locks, so that they see what was committed before these were free.
func (l *ledger) read(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	l.readTurns(ctx, p, turns)
	l.readPlaces(ctx, p, turns)
	l.readMessages(ctx, p, turns)
	l.readUsages(ctx, p, turns)
	l.readValues(ctx, p, turns)
}

// readTurns looks for turns that may be stored.
func (l *ledger) readTurns(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	var params db.TurnFindParams
	for _, a := range turns {
		if a.ID != "" && (a.Given || a.Unsure) {
			params.SessionIds, params.Ids = append(params.SessionIds, convert.UUID(a.SessionID)), append(params.Ids, a.ID)
		}
	}
	if len(params.Ids) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFind(ctx, q, params)
		for _, row := range rows {
			l.turns[ofTurn{row.SessionID.Bytes, row.ID}] = row
		}
		return err
	})
}

// readPlaces looks for the messages that turns follow.
func (l *ledger) readPlaces(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	var params db.TurnFindPlacesParams
	for _, a := range turns {
		if a.After != nil {
			params.SessionIds, params.Sequences = append(params.SessionIds, convert.UUID(a.SessionID)),
				append(params.Sequences, *a.After)
		}
	}
	if len(params.Sequences) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFindPlaces(ctx, q, params)
		for _, row := range rows {
			l.has[ofPlace{row.SessionID.Bytes, row.Sequence}] = row.Found
			l.branched[row.SessionID.Bytes] = row.Branched
		}
		return err
	})
}

// readMessages looks for messages that may be stored.
func (l *ledger) readMessages(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	var params db.TurnFindMessagesParams
	for _, a := range turns {
		if a.Repeatable || a.Unsure {
			for i := range a.Messages {
				params.SessionIds, params.Ids = append(params.SessionIds, convert.UUID(a.SessionID)),
					append(params.Ids, convert.UUID(a.Messages[i].ID))
			}
		}
	}
	if len(params.Ids) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFindMessages(ctx, q, params)
		for _, row := range rows {
			l.messages[ofSession{row.SessionID.Bytes, row.ID.Bytes}] = true
		}
		return err
	})
}

// readUsages looks for usages that may be stored.
func (l *ledger) readUsages(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	var params db.TurnFindUsagesParams
	for _, a := range turns {
		if a.Usage != nil {
			params.SessionIds, params.Ids = append(params.SessionIds, convert.UUID(a.SessionID)),
				append(params.Ids, convert.UUID(a.Usage.ID))
		}
	}
	if len(params.Ids) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFindUsages(ctx, q, params)
		for _, row := range rows {
			l.added[ofSession{row.SessionID.Bytes, row.ID.Bytes}] = convert.Usage(row.InputTokens, row.OutputTokens,
				row.CostNanos)
		}
		return err
	})
}

// readValues reads the keys that a change depends on.
func (l *ledger) readValues(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	var values []ofScope
	for _, a := range turns {
		for _, c := range a.State.Changes {
			if rules.ReadsState(c) {
				values = append(values, ofScope{c.Scope, c.Key})
			}
		}
	}
	if len(values) == 0 {
		return
	}
	scopes := sortedScopes(l.scopes)
	in, places := l.scopesAt(scopes), convert.Places(scopes)
	params := db.TurnFindValuesParams{
		SessionIds: in.SessionIds, Namespaces: in.Namespaces, Names: in.Names, ScopeHints: in.Hints,
	}
	for _, at := range values {
		params.Scopes, params.Keys = append(params.Scopes, places[at.scope]), append(params.Keys, at.key)
		params.Hints = append(params.Hints, l.hintOf(keyOf(at.scope, at.key)))
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFindValues(ctx, q, params)
		for _, row := range rows {
			at := values[row.Place-1]
			l.values[at] = &repo.StateValue{Key: at.key, Value: row.Value, Version: row.Version}
			l.found[at] = row.Hint
		}
		return err
	})
}
