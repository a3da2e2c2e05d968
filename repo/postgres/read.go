package postgres

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

func (s *sessions) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	read, err := rules.NormalizeRead(read)
	if err != nil {
		return repo.Snapshot{}, err
	}
	others, err := s.others(ctx, read.IDs...)
	if err != nil {
		return repo.Snapshot{}, err
	}
	if len(others) > 0 { // in their places it reads sessions that nobody has
		read.IDs = each(read.IDs, func(id repo.ID) repo.ID {
			if _, is := others[id]; is {
				return repo.NewID()
			}
			return id
		})
	}
	params := db.SessionReadParams{
		Ids:           toUUIDs(read.IDs),
		FromSequence:  read.From,
		Backwards:     read.Last > 0,
		WithContent:   !read.WithoutContent,
		WithPayload:   !read.WithoutPayload,
		Most:          int64(max(read.First, read.Last)),
		Tokens:        read.Tokens,
		MaxMessages:   int64(max(read.First, read.Last)),
		MaxBytes:      limits.MaxReadBytes,
		SmallBytes:    limits.MaxReadBytes / int64(max(1, len(read.IDs)*max(read.First, read.Last))),
		MaxStateBytes: limits.MaxStateBytes,
		Namespace:     s.namespace(),
		Scopes:        read.Scopes,
	}
	scanner := &snapshotScanner{read: read, view: s.view, asked: make([]int64, len(read.IDs)), lows: make([]int64, len(read.IDs)), snapshot: repo.Snapshot{
		Sessions: make([]*repo.SessionSnapshot, len(read.IDs)),
		Scopes:   make([]repo.ScopeState, len(read.Scopes)),
	}}
	if len(read.IDs) == 1 {
		params.ID = params.Ids[0]
	} else {
		scanner.parts = append(scanner.parts, "many")
	}
	if !read.Since.IsZero() {
		params.Since = &read.Since
		scanner.parts = append(scanner.parts, "since")
	}
	if params.MaxMessages > 0 {
		scanner.parts = append(scanner.parts, "messages")
	}
	if read.Last > 0 {
		scanner.parts = append(scanner.parts, "last")
	}
	if read.Tokens > 0 {
		scanner.parts = append(scanner.parts, "tokens")
		params.MaxMessages += rules.MaxInstructions
	}
	own := read.State && len(read.IDs) > 0
	if own {
		scanner.parts = append(scanner.parts, "own")
	}
	if len(read.Scopes) > 0 {
		scanner.parts = append(scanner.parts, "shared")
	}
	if own || len(read.Scopes) > 0 {
		scanner.parts = append(scanner.parts, "state")
	}
	// Each scope may have a row without a key, and one key more shows that there are too
	// many.
	params.MaxRows = int32(limits.MaxStateReadKeys + len(read.IDs) + len(read.Scopes) + 1)
	branched := params.MaxMessages > 0 && read.Tokens == 0 && (read.Branches || slices.ContainsFunc(read.IDs, s.exec.branched))
	if read.Branches {
		scanner.parts = append(scanner.parts, "all")
	}
	if p, ok := s.exec.(*pooled); ok && !branched && isPlainRead(read) {
		if whole, err := scanner.readPlain(ctx, p); err != nil {
			return repo.Snapshot{}, err
		} else if whole {
			snapshot, err := scanner.result()
			return s.noteMissing(read.IDs, snapshot), err
		}
	}
	for {
		if branched {
			scanner.parts = append(scanner.parts, "branches")
		}
		err = s.exec.readAt(ctx, func(q db.DBTX, at conn.Level) error {
			scanner.DBTX, params.AnyLevel = q, bool(at)
			_, err := queries.SessionRead(ctx, scanner, params)
			if err == nil && scanner.otherLevel {
				err = errOtherLevel
			}
			return err
		})
		if err != nil {
			return repo.Snapshot{}, err
		}
		for _, id := range scanner.branched {
			s.exec.branch(id)
		}
		if branched || read.Tokens > 0 || len(scanner.branched) == 0 {
			break
		}
		branched = true
	}
	snapshot, err := scanner.result()
	return s.noteMissing(read.IDs, snapshot), err
}

// noteMissing notes the sessions that a snapshot lacks.
func (s *sessions) noteMissing(ids []repo.ID, snapshot repo.Snapshot) repo.Snapshot {
	for i, session := range snapshot.Sessions {
		if session == nil {
			_ = s.exec.noted(sessionNotFound(ids[i]))
		}
	}
	return snapshot
}

// snapshotScanner sits between the generated query SessionRead and the connection. It
// leaves out the parts that are not needed, and scans the rows itself: sqlc cannot express
// what the kinds of rows have in the columns that they share.
type snapshotScanner struct {
	db.DBTX
	read     repo.ReadSessions
	view     string // see sessions
	parts    []string
	snapshot repo.Snapshot
	// asked is how many messages of each session were asked for, and lows the first sequence of those
	// that are selected by it.
	asked, lows []int64
	// branched are the sessions that have branches, or are forks. cuts says of which there are messages before those that fit
	// into ReadSessions.Tokens.
	branched []repo.ID
	cuts     map[int64]bool
	// keys is the number of keys of state, and bytes what they have. partial: the values
	// of some are missing.
	keys, bytes int
	partial     bool
	// otherLevel: the transaction's level is not that which the statement requires.
	otherLevel bool
}

// Query implements db.DBTX.
func (s *snapshotScanner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = withParts(sql, args, s.parts...)
	rows, err := s.DBTX.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var (
		place                 *int64
		number, version       *int64
		id                    pgtype.UUID
		role                  roleName
		name, content         *string
		kind, callID          *string
		metadata, payload     []byte
		createdAt, occurredAt optionalTime
		texts                 []string
		numbers               []*int64
		counter               repeatedText
	)
	// All rows of a kind share one set of destinations; nil skips a column. The order is
	// that of the statement's columns.
	ofSession := []any{nil, &number, &version, nil, &name, &content, &kind, &callID, &metadata, nil, &createdAt, &occurredAt, &texts, &numbers}
	ofMessage := []any{nil, &number, &version, &id, &role, &content, &kind, &callID, &metadata, &payload, &createdAt, &occurredAt, &texts, &numbers}
	ofState := []any{nil, &number, &version, &id, &name, &content, nil, nil, &metadata, nil, nil, &occurredAt, nil, nil}
	onlyPlace := make([]any, len(ofSession))
	onlyPlace[0] = &place
	s.drop() // what a failed attempt has left
	for rows.Next() {
		if rows.Scan(onlyPlace...) != nil {
			break // Scan has closed rows, and rows.Err returns the error
		}
		metadata, payload, texts, numbers = nil, nil, nil, nil
		switch {
		case place == nil:
			s.otherLevel = true
		case *place > 0:
			if rows.Scan(ofSession...) == nil {
				s.addSession(*place, repo.Session{
					Namespace: *name, Key: fromNullable(content), Owner: fromNullable(kind), Actor: fromNullable(callID),
					AutomationProfile: texts[0], Metadata: metadata, Version: *version, MessageCount: *number,
					Usage: usageOf(*numbers[1], *numbers[2], *numbers[3]), Budget: (*repo.Cost)(numbers[4]), FencedOnly: *numbers[5] == 1,
					Plans: linkedPlansOf(s.view, texts[1:]), CreatedAt: createdAt.Time, UpdatedAt: occurredAt.Time,
				}, *numbers[0])
				s.addHistory(*place, numbers[6:])
			}
		case *place < 0:
			if rows.Scan(ofMessage...) == nil {
				entry := s.entry(-*place)
				if counter.text = ""; len(texts) > 0 {
					counter.text = texts[0]
				}
				var tokens int64
				if len(numbers) > 0 {
					tokens = *numbers[0]
				}
				entry.Messages = append(entry.Messages, repo.Message{
					ID: id.Bytes, Sequence: *number, Follows: followsOf(*number, version), Tokens: tokens, Counter: counter.text,
					Role: role.Role, Content: *content, Kind: fromNullable(kind), CallID: fromNullable(callID),
					Metadata: metadata, Payload: payload, CreatedAt: createdAt.Time, OccurredAt: occurredAt.Time,
				})
			}
		default:
			if rows.Scan(ofState...) == nil {
				s.addState(id, content, *version, name, number, metadata, occurredAt.Time)
			}
		}
	}
	return rows, nil //nolint:nilerr // the caller checks rows.Err
}

func (s *snapshotScanner) addSession(place int64, session repo.Session, low int64) {
	session.ID = s.read.IDs[place-1]
	entry := s.entry(place)
	entry.Session = session
	s.lows[place-1] = low
	s.asked[place-1] = min(max(0, session.MessageCount-low), int64(max(s.read.First, s.read.Last)))
	entry.Messages = slices.Grow(entry.Messages, int(s.asked[place-1]))
}

// addHistory adds what the statement says of a session whose messages are not read as most are.
func (s *snapshotScanner) addHistory(place int64, numbers []*int64) {
	if len(numbers) > 0 && *numbers[0] == 1 {
		s.branched = append(s.branched, s.read.IDs[place-1])
	}
	if len(numbers) > 1 {
		s.asked[place-1], s.lows[place-1] = *numbers[1], -1
	}
	if len(numbers) > 2 {
		s.lows[place-1] = noSequence
		if numbers[2] != nil {
			s.lows[place-1] = *numbers[2]
		}
		s.cuts[place] = numbers[3] != nil && *numbers[3] == 1
	}
}

// addState adds a key, or a scope without keys, wherever it was asked for. A shared state
// has a name, and a session's own has its id.
func (s *snapshotScanner) addState(id pgtype.UUID, name *string, scopeVersion int64, key *string, version *int64, value []byte, updatedAt time.Time) {
	found := false
	add := func(state *repo.ScopeState) {
		state.Version = scopeVersion
		if key != nil {
			s.keys++
			s.bytes += len(*key) + len(value)
			s.partial = s.partial || value == nil
			if found {
				value = bytes.Clone(value)
			}
			found = true
			state.Values = append(state.Values, stateValueOf(*key, value, *version, updatedAt))
		}
	}
	for i := range s.read.IDs {
		if name == nil && s.read.IDs[i] == id.Bytes {
			add(&s.entry(int64(i + 1)).State)
		}
	}
	for i := range s.read.Scopes {
		if name != nil && s.read.Scopes[i] == *name {
			add(&s.snapshot.Scopes[i])
		}
	}
}

func (s *snapshotScanner) drop() {
	clear(s.snapshot.Sessions)
	clear(s.snapshot.Scopes)
	s.keys, s.bytes, s.partial, s.otherLevel = 0, 0, false, false
	s.branched, s.cuts = nil, map[int64]bool{}
}

// entry returns the session at a place.
func (s *snapshotScanner) entry(place int64) *repo.SessionSnapshot {
	entry := &s.snapshot.Sessions[place-1]
	if *entry == nil {
		*entry = &repo.SessionSnapshot{Messages: []repo.Message{}}
	}
	return *entry
}

// result completes the snapshot: the statement's rows had any order, and there may be
// messages behind the last one that belongs to it.
func (s *snapshotScanner) result() (repo.Snapshot, error) {
	if s.keys > limits.MaxStateReadKeys || s.bytes > limits.MaxStateBytes || s.partial {
		return repo.Snapshot{}, &repo.LimitExceededError{Kind: "keys or bytes of state", Limit: limits.MaxStateReadKeys}
	}
	sortState := func(state *repo.ScopeState) {
		slices.SortFunc(state.Values, func(a, b repo.StateValue) int { return strings.Compare(a.Key, b.Key) })
	}
	size := 0
	for i, entry := range s.snapshot.Sessions {
		if entry == nil {
			continue
		}
		slices.SortFunc(entry.Messages, func(a, b repo.Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
		entry.Messages, size = rules.CutRead(s.read, entry.Messages, size)
		first := s.lows[i]
		if s.read.Last > 0 && s.read.Tokens == 0 && first >= 0 {
			first = entry.Session.MessageCount - int64(len(entry.Messages))
		}
		if err := s.checkWhole(entry.Messages, first); err != nil {
			return repo.Snapshot{}, err
		}
		if entry.Cut = int64(len(entry.Messages)) < s.asked[i]; entry.Cut {
			if size < limits.MaxReadBytes {
				return repo.Snapshot{}, missingMessages()
			}
			entry.Messages = slices.Clone(entry.Messages) // keep none of those behind it
		}
		entry.Cut = entry.Cut || s.cuts[int64(i+1)]
		for m := range entry.Messages {
			entry.Messages[m].SessionID = entry.Session.ID
		}
		if s.read.State {
			entry.State.Scope.SessionID = entry.Session.ID
			sortState(&entry.State)
		}
	}
	for i := range s.snapshot.Scopes {
		s.snapshot.Scopes[i].Scope.Name = s.read.Scopes[i]
		sortState(&s.snapshot.Scopes[i])
	}
	return s.snapshot, nil
}

// checkWhole reports a gap among messages. low is the first sequence that was selected, or -1 if that is not known. What was read
// for a prompt has others before low.
func (s *snapshotScanner) checkWhole(messages []repo.Message, low int64) error {
	if s.read.Tokens > 0 {
		for len(messages) > 0 && messages[0].Sequence < low {
			messages = messages[1:]
		}
		low = -1
	}
	if s.read.Branches {
		return nil // their number is checked
	}
	return checkLinked(messages, low)
}
