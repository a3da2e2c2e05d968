package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// stretch is a range of messages that are read for the session at a place.
type stretch struct {
	place     int
	owner     pgtype.UUID // the session that has them
	low, high int64
}

// whole returns the messages from ReadSessions.From on of sessions without branches.
func (r *reading) whole() []stretch {
	all := make([]stretch, len(r.ids))
	for i, id := range r.ids {
		all[i] = stretch{i, id, r.read.From, noSequence - 1}
	}
	return all
}

// scan reads the first or last messages of each stretch, with what the first or last of them have, as far as it fits
// into a share of maxBytes.
func (r *reading) scan(ctx context.Context, scanner *messageScanner, of []stretch, maxBytes int64) func(db.DBTX) error {
	params := db.SessionReadRangesParams{
		WithContent: !r.read.WithoutContent, WithPayload: !r.read.WithoutPayload, Branched: r.byPath,
	}
	count := int64(0)
	for _, s := range of {
		params.Owners, params.Lows, params.Highs = append(params.Owners, s.owner), append(params.Lows, s.low),
			append(params.Highs, s.high)
		params.Shares = append(params.Shares, min(r.room, s.high-s.low+1))
		count += params.Shares[len(params.Shares)-1]
	}
	for i := range params.Shares {
		params.Shares[i] *= maxBytes / max(1, count)
	}
	if r.read.Last > 0 {
		params.LastMessages = r.room
	} else {
		params.FirstMessages = r.room
	}
	return func(q db.DBTX) error {
		_, err := queries.SessionReadRanges(ctx, scanner.on(q), params)
		return err
	}
}

// selected are the messages of one session that a read selects.
type selected struct {
	count  int64 // of them
	low    int64 // the first one's sequence, or -1 if that is not known
	tail   int64 // of a prompt's messages: the sequence from which on each follows the one before
	cut    bool  // there are others before a prompt's
	rows   []int // their places among the rows
	places []stretch
}

// selects returns what is selected of each session, and the stretches that have it, in the order in which they are
// taken.
func (r *reading) selects() ([]selected, []stretch) {
	all := make([]selected, len(r.ids))
	if !r.byPath {
		for i := range r.heads {
			head := &r.heads[i]
			s := &all[head.Place-1]
			s.count, s.low = min(max(0, head.NextSequence-r.read.From), r.most), r.read.From
			if r.read.Last > 0 {
				s.low = head.NextSequence - s.count
			}
		}
		return all, r.whole()
	}
	for i := range all {
		all[i].low, all[i].tail = -1, noSequence
	}
	for _, p := range r.path {
		all[p.Place-1].add(stretch{int(p.Place - 1), p.Owner, p.Low, p.High})
	}
	for _, p := range r.prompt {
		s := &all[p.Place-1]
		s.add(stretch{int(p.Place - 1), p.Owner, p.Low, p.High})
		if s.cut = s.cut || p.Cut; p.InTail && p.Low <= p.High {
			s.tail = min(s.tail, p.Low)
		}
	}
	var of []stretch
	for i := range all {
		all[i].take(r.room, r.read.Last > 0)
		of = append(of, all[i].places...)
	}
	return all, of
}

func (s *selected) add(of stretch) {
	if of.low <= of.high {
		s.places = append(s.places, of)
	}
}

// take leaves the first or the last messages, as many as there is room for.
func (s *selected) take(room int64, last bool) {
	slices.SortFunc(s.places, func(a, b stretch) int {
		if last {
			a, b = b, a
		}
		return cmp.Compare(a.low, b.low)
	})
	for i := range s.places {
		p := &s.places[i]
		count := min(p.high-p.low+1, room-s.count)
		if s.count += count; last {
			p.low = p.high - count + 1
		} else {
			p.high = p.low + count - 1
		}
	}
	s.places = slices.DeleteFunc(s.places, func(p stretch) bool { return p.low > p.high })
}

// addMessages adds to each session the messages that belong to the snapshot.
func (r *reading) addMessages(ctx context.Context, snapshot *repo.Snapshot) error {
	all, of := r.selects()
	if r.byPath {
		r.messages.messages, r.messages.sizes = nil, nil
		if len(of) > 0 {
			if err := r.exec.read(ctx, r.scan(ctx, &r.messages, of, limits.MaxReadBytes)); err != nil {
				return err
			}
		}
	}
	found, sizes := r.messages.messages, r.messages.sizes
	for row := range found {
		s := &all[of[sizes[row].place-1].place]
		s.rows = append(s.rows, row)
	}
	total := 0
	var left []int
	for i, entry := range snapshot.Sessions {
		s := &all[i]
		if entry == nil {
			s.rows = nil
			continue
		}
		if int64(len(s.rows)) != s.count {
			return missingMessages()
		}
		slices.SortFunc(s.rows, func(a, b int) int { return cmp.Compare(found[a].Sequence, found[b].Sequence) })
		var taken int
		taken, total = rules.CutRead(r.read, len(s.rows), total, func(i int) int { return int(sizes[s.rows[i]].bytes) })
		entry.Cut = s.cut || taken < len(s.rows)
		if s.rows = rules.Taken(r.read, s.rows, taken); r.read.Last > 0 && s.low >= 0 {
			s.low += s.count - int64(taken)
		}
		for _, row := range s.rows {
			if sizes[row].left {
				left = append(left, row)
			}
		}
	}
	if err := r.fill(ctx, of, left); err != nil {
		return err
	}
	for i, entry := range snapshot.Sessions {
		if len(all[i].rows) == 0 {
			continue
		}
		entry.Messages = make([]repo.Message, len(all[i].rows))
		for m, row := range all[i].rows {
			entry.Messages[m] = found[row]
			entry.Messages[m].SessionID = entry.Session.ID
		}
		if err := r.checkWhole(entry.Messages, all[i]); err != nil {
			return err
		}
	}
	return nil
}

// fill reads what was left out of messages for which there is room.
func (r *reading) fill(ctx context.Context, of []stretch, left []int) error {
	if len(left) == 0 {
		return nil
	}
	messages, sizes := r.messages.messages, r.messages.sizes
	holes := make([]stretch, len(left))
	for i, row := range left {
		sequence := messages[row].Sequence
		holes[i] = stretch{owner: of[sizes[row].place-1].owner, low: sequence, high: sequence}
	}
	var rest messageScanner
	if err := r.exec.read(ctx, r.scan(ctx, &rest, holes, noSequence)); err != nil {
		return err
	}
	if len(rest.messages) != len(left) {
		return missingMessages()
	}
	for i, size := range rest.sizes {
		row := left[size.place-1]
		if size.bytes != sizes[row].bytes { // it was erased
			return errMoved
		}
		messages[row] = rest.messages[i]
	}
	return nil
}

// checkWhole reports a gap among messages.
func (r *reading) checkWhole(messages []repo.Message, s selected) error {
	if r.read.Branches {
		return nil // their number is checked
	}
	if r.read.Tokens > 0 { // others are before the tail
		for len(messages) > 0 && messages[0].Sequence < s.tail {
			messages = messages[1:]
		}
	}
	return checkLinked(messages, s.low)
}

var errMissingMessages = errors.New("messages of the session are missing: rows were removed or not stored by " +
	"others, or are hidden from this role")

// missingMessages is the error of a reader that meets a gap. The library never causes
// one: sequences have none.
func missingMessages() error {
	return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: errMissingMessages}
}

func isGap(err error) bool { return errors.Is(err, errMissingMessages) }

// checkLinked reports a gap among ascending messages of a transcript, each of which follows the one before it. The
// first one is the one behind from - 1, unless from is -1.
func checkLinked(messages []repo.Message, from int64) error {
	before, known := from-1, from >= 0
	for i := range messages {
		if messages[i].Follows != before && known {
			return missingMessages()
		}
		before, known = messages[i].Sequence, true
	}
	return nil
}
