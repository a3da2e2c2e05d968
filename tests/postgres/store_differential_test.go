package postgres

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// twins has the ids and names of one run, which no other run uses.
type twins struct {
	sessions, messages, usages []repo.ID
	namespace                  string
	// documents are the exports of each store's own sessions, because times differ.
	// at is the index of the store that is called.
	documents []map[repo.ID][]byte
	at        int
	// leases and tokens are those that each store has given.
	leases [][]repo.Lease
	tokens [][]int64
	// plans are the latest ones that each store has made with each of three keys, or ids of
	// none. made are the ids that it has given to plans, and to sessions with keys, in the
	// order of their appearance.
	plans, made [][]repo.ID
}

func newTwins() *twins {
	w := &twins{namespace: "n" + repo.NewID().String(), documents: []map[repo.ID][]byte{{}, {}, {}}}
	w.leases, w.tokens = make([][]repo.Lease, len(w.documents)), make([][]int64, len(w.documents))
	w.plans, w.made = make([][]repo.ID, len(w.documents)), make([][]repo.ID, len(w.documents))
	var none []repo.ID
	for _, ids := range []*[]repo.ID{&w.sessions, &w.messages, &w.usages, &none} {
		for range 3 {
			*ids = append(*ids, repo.NewID())
		}
	}
	for i := range w.plans {
		w.plans[i] = slices.Clone(none)
	}
	return w
}

// plan returns the id of the plan with a key.
func (w *twins) plan(key int) repo.ID { return w.plans[w.at][key] }

// gave notes an id that the store has given.
func (w *twins) gave(id repo.ID) {
	if !slices.Contains(w.made[w.at], id) {
		w.made[w.at] = append(w.made[w.at], id)
	}
}

// comparable replaces the ids that each store has given itself.
func (w *twins) comparable(answer string) string {
	var pairs []string
	for i, id := range w.made[w.at] {
		pairs = append(pairs, id.String(), fmt.Sprint("id", i))
	}
	return strings.NewReplacer(pairs...).Replace(answer)
}

// operation is drawn, and run on both stores. It returns a text that can be compared.
type operation struct {
	name string
	run  func(ctx context.Context, r repo.Repositories) string
}

func (w *twins) draw(t *rapid.T) operation {
	session := rapid.SampledFrom(w.sessions).Draw(t, "session")
	plan := rapid.IntRange(0, 2).Draw(t, "plan")
	number := rapid.IntRange(0, 4).Draw(t, "number")
	action := w.namespace + "/" + string(rune('a'+number%3))
	actor := fmt.Sprint("actor", number%2)
	messages := make([]repo.NewMessage, 1+number%3)
	for i := range messages {
		messages[i] = user(fmt.Sprint(number, i))
		if number > 2 {
			messages[i].Kind, messages[i].CallID = actor, actor
		}
		if number > 1 && i == 0 {
			messages[i].ID = rapid.SampledFrom(w.messages).Draw(t, "message")
		}
	}
	turn := w.drawTurn(t, messages)
	kind := rapid.IntRange(0, 2).Draw(t, "key")
	key := func() repo.LeaseKey {
		return []repo.LeaseKey{{Kind: actor, Name: action}, repo.SessionLease(session), repo.PlanLease(w.plan(plan))}[kind]
	}
	fence := rapid.IntRange(0, 5).Draw(t, "fence")
	fenced := func(turn repo.Turn, id repo.ID) repo.Turn {
		turn.Fence = w.token(repo.SessionLease(id), fence)
		return turn
	}
	operations := []operation{
		{"create", func(ctx context.Context, r repo.Repositories) string {
			mode := []repo.Existing{repo.ExistingSame, repo.ExistingNone, repo.ExistingAny}[number%3]
			s, err := r.Sessions().Create(ctx, repo.NewSession{
				ID: session, Namespace: w.namespace, Owner: actor, Actor: actor, Existing: mode, FencedOnly: fence == 5,
			})
			return w.say(err, s)
		}},
		{"update", func(ctx context.Context, r repo.Repositories) string {
			update := repo.SessionUpdate{Actor: &actor}
			if number > 2 {
				budget := repo.Cost(number)
				update.Budget = &budget
			}
			if fence > 2 {
				only := fence == 3
				update.FencedOnly = &only
			}
			s, err := r.Sessions().Update(ctx, session, update)
			return w.say(err, s)
		}},
		{"usage", func(ctx context.Context, r repo.Repositories) string {
			u, err := r.Sessions().AddUsage(ctx, session, repo.NewUsage{ID: w.usages[number%3], Cost: repo.Cost(1 + number)})
			return w.say(err, u)
		}},
		{"turn", func(ctx context.Context, r repo.Repositories) string {
			a, err := r.Sessions().AppendTurn(ctx, inSession(session, fenced(turn, session)))
			return w.say(err, w.turn(a))
		}},
		{"change", func(ctx context.Context, r repo.Repositories) string {
			changes := slices.Clone(turn.State)
			for i := range changes {
				if changes[i].Scope == (repo.Scope{}) {
					changes[i].Scope.SessionID = session
				}
			}
			var conditions []repo.ScopeVersion
			for _, c := range turn.IfScopes {
				if c.Scope == (repo.Scope{}) {
					c.Scope.SessionID = session
				}
				conditions = append(conditions, c)
			}
			if len(changes) == 0 {
				return ""
			}
			v, err := r.State().Change(ctx, changes, conditions...)
			return w.say(err, w.versions(v))
		}},
		{"erase", func(ctx context.Context, r repo.Repositories) string {
			n, err := r.State().Erase(ctx, action)
			return w.say(err, n)
		}},
		{"delete", func(ctx context.Context, r repo.Repositories) string {
			d, err := r.Sessions().Delete(ctx, session)
			return w.say(err, d)
		}},
		{"append", func(ctx context.Context, r repo.Repositories) string {
			m, err := r.Sessions().Append(ctx, session, messages...)
			return w.say(err, m)
		}},
		{"append at", func(ctx context.Context, r repo.Repositories) string {
			m, err := appendAt(ctx, r.Sessions(), session, int64(number), messages...)
			return w.say(err, m)
		}},
		{"message", func(ctx context.Context, r repo.Repositories) string {
			m, err := r.Sessions().Message(ctx, session, w.messages[number%3])
			return w.say(err, m)
		}},
		{"messages", func(ctx context.Context, r repo.Repositories) string {
			a, err := r.Sessions().MessagesFrom(ctx, session, int64(number), 3)
			b, _ := r.Sessions().LastMessages(ctx, session, 2)
			c, _ := r.Sessions().MessagesBefore(ctx, session, 5, 2)
			d, _ := r.Sessions().MessagesOfCall(ctx, session, actor)
			return w.say(err, a, b, c, d)
		}},
		{"read", func(ctx context.Context, r repo.Repositories) string {
			snapshot, err := r.Sessions().Read(ctx, repo.ReadSessions{IDs: w.sessions, First: number % 3, State: true})
			var values []any
			for _, entry := range snapshot.Sessions {
				if entry == nil {
					values = append(values, nil)
					continue
				}
				values = append(values, entry.Session, entry.Messages, entry.Messages == nil, entry.Cut, stateValues(entry.State))
			}
			return w.say(err, values...)
		}},
		{"append by key", func(ctx context.Context, r repo.Repositories) string {
			key := repo.SessionKey{Namespace: w.namespace, Key: actor}
			m, err := bykey.Of(r.Sessions(), key).AppendOrCreate(ctx, repo.NewSession{Owner: actor}, messages...)
			if err == nil {
				w.gave(m[0].SessionID)
			}
			return w.say(err, m)
		}},
		{"delete by key", func(ctx context.Context, r repo.Repositories) string {
			d, err := bykey.Of(r.Sessions(), repo.SessionKey{Namespace: w.namespace, Key: actor}).Delete(ctx)
			return w.say(err, d)
		}},
		{"import", func(ctx context.Context, r repo.Repositories) string {
			document, there := w.documents[w.at][session]
			if !there {
				return "no document"
			}
			s, err := r.Sessions().Import(ctx, bytes.NewReader(document), true)
			return w.say(err, s)
		}},
		{"action", func(ctx context.Context, r repo.Repositories) string {
			a, err := r.Actions().Create(ctx, repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{Reusable: number > 1}})
			return w.say(err, a)
		}},
		{"action update", func(ctx context.Context, r repo.Repositories) string {
			a, err := r.Actions().Update(ctx, action, int64(number), repo.ActionDefinition{Reusable: number > 1, Description: actor})
			return w.say(err, a)
		}},
		{"archive", func(ctx context.Context, r repo.Repositories) string {
			a, err := r.Actions().Archive(ctx, action)
			return w.say(err, a)
		}},
		{"action delete", func(ctx context.Context, r repo.Repositories) string {
			return w.say(r.Actions().Delete(ctx, action))
		}},
		{"use", func(ctx context.Context, r repo.Repositories) string {
			use := repo.UseAction{Key: fmt.Sprint("k", plan)}
			if number > 1 {
				use.SessionID = session
			}
			if number > 2 {
				use.ParentID = w.plan(number % 3)
			}
			p, err := r.Plans().Use(ctx, action, use)
			if err == nil {
				w.plans[w.at][plan] = p.ID
				w.gave(p.ID)
			}
			return w.say(err, p)
		}},
		{"transition", func(ctx context.Context, r repo.Repositories) string {
			all := rules.Transitions()
			p, err := r.Plans().Transition(ctx, w.plan(plan), all[(number*7+len(actor))%len(all)], repo.Cause{Actor: actor, Fence: w.token(repo.PlanLease(w.plan(plan)), fence)})
			return w.say(err, p)
		}},
		{"start", func(ctx context.Context, r repo.Repositories) string {
			p, err := r.Plans().Transition(ctx, w.plan(plan), repo.TransitionStart, repo.Cause{Actor: actor, Fence: w.token(repo.PlanLease(w.plan(plan)), fence)})
			return w.say(err, p)
		}},
		{"cancel", func(ctx context.Context, r repo.Repositories) string {
			p, err := r.Plans().Transition(ctx, w.plan(plan), repo.TransitionCancel, repo.Cause{Actor: actor, Fence: w.token(repo.PlanLease(w.plan(plan)), fence)})
			return w.say(err, p)
		}},
		{"progress", func(ctx context.Context, r repo.Repositories) string {
			step := int64(number)
			p, err := r.Plans().Progress(ctx, w.plan(plan), repo.Progress{CompletedStep: &step, Fence: w.token(repo.PlanLease(w.plan(plan)), fence)})
			return w.say(err, p)
		}},
		{"claim", func(ctx context.Context, r repo.Repositories) string {
			claim := repo.Claim{Owner: w.namespace + actor, Namespaces: []string{w.namespace}, Limit: number % 3}
			if number > 2 {
				claim.Actions, claim.Phases = []string{action}, []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute}
			}
			claimed, err := r.Plans().Claim(ctx, claim)
			out := w.say(err)
			for _, c := range claimed {
				if number < 4 { // the last ones are not released
					w.leases[w.at] = append(w.leases[w.at], c.Lease)
				}
				out += w.say(nil, c.Plan) + w.lease(nil, c.Lease)
			}
			return out
		}},
		{"limit", func(ctx context.Context, r repo.Repositories) string {
			limit := repo.PlanLimit{Namespace: w.namespace, AtOnce: number%5 - 1}
			if len(actor)%2 == 0 {
				limit.Action = action
			}
			return w.say(r.Plans().SetLimit(ctx, limit))
		}},
		{"delete plan", func(ctx context.Context, r repo.Repositories) string {
			return w.say(r.Plans().Delete(ctx, w.plan(plan)))
		}},
		{"link", func(ctx context.Context, r repo.Repositories) string {
			return w.say(r.Plans().Link(ctx, session, w.plan(plan)))
		}},
		{"unlink", func(ctx context.Context, r repo.Repositories) string {
			return w.say(r.Plans().Unlink(ctx, session, w.plan(plan)))
		}},
		{"record", func(ctx context.Context, r repo.Repositories) string {
			return w.say(r.Audit().Record(ctx, repo.AuditEntry{ID: w.usages[number%3], OccurredAt: time.UnixMicro(1_700_000_000_000_000).UTC(), Type: events.ToolInvoked, SessionID: w.sessions[0]}))
		}},
		{"acquire", func(ctx context.Context, r repo.Repositories) string {
			ttl := []time.Duration{0, time.Minute, repo.MaxLeaseTTL, repo.MaxLeaseTTL + time.Microsecond, -1}[number]
			l, err := r.Leases().Acquire(ctx, repo.NewLease{Key: key(), Owner: w.namespace + actor, TTL: ttl})
			if err == nil {
				w.leases[w.at] = append(w.leases[w.at], l)
			}
			return w.lease(err, l)
		}},
		{"acquire for another", func(ctx context.Context, r repo.Repositories) string {
			l, err := r.Leases().Acquire(ctx, repo.NewLease{Key: key(), Owner: w.namespace})
			if err == nil {
				w.leases[w.at] = append(w.leases[w.at], l)
			}
			return w.lease(err, l)
		}},
		{"renew", func(ctx context.Context, r repo.Repositories) string {
			l, err := r.Leases().Renew(ctx, w.given(number), time.Duration(number)*20*time.Minute)
			return w.lease(err, l)
		}},
		{"release", func(ctx context.Context, r repo.Repositories) string {
			return w.lease(r.Leases().Release(ctx, w.given(number)))
		}},
		{"release all", func(ctx context.Context, r repo.Repositories) string {
			n, err := r.Leases().ReleaseAll(ctx, w.namespace+actor)
			return w.say(err, n)
		}},
		{"everything", w.everything},
	}
	return rapid.SampledFrom(operations).Draw(t, "operation")
}

var versionNumbers = regexp.MustCompile(`\b1\d{15}\b`)

// drawTurn draws a turn.
func (w *twins) drawTurn(t *rapid.T, messages []repo.NewMessage) repo.Turn {
	var turn repo.Turn
	parts := rapid.IntRange(1, 31).Draw(t, "parts")
	if parts&1 != 0 {
		turn.Messages = messages
	}
	scopes := []repo.Scope{{}, {Name: w.namespace + "/a"}, {Name: w.namespace + "/b"}}
	if parts&2 != 0 {
		seen := map[[2]string]bool{}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			c := repo.StateChange{
				Scope: rapid.SampledFrom(scopes).Draw(t, "scope"), Key: rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"),
				Op: rapid.SampledFrom([]repo.StateOp{repo.StateSet, repo.StateRemove, repo.StateIncrement, repo.StateIncrement}).Draw(t, "op"),
			}
			if seen[[2]string{c.Scope.Name, c.Key}] {
				continue
			}
			seen[[2]string{c.Scope.Name, c.Key}] = true
			switch c.Op {
			case repo.StateSet:
				c.Value = []byte(rapid.SampledFrom([]string{
					"1", " 2\n", "-0", "1e3", "1.0", `"1"`, "null", "{}", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
					"-9223372036854775809", "12345678901234567890123", "1e400", "true", `"\ud83d\ude00"`,
				}).Draw(t, "value"))
			case repo.StateIncrement:
				c.By = rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}).Draw(t, "by")
				bounds := []*int64{nil, nil, new(int64(-1)), new(int64(0)), new(int64(1))}
				c.AtMost, c.AtLeast = rapid.SampledFrom(bounds).Draw(t, "at most"), rapid.SampledFrom(bounds).Draw(t, "at least")
			}
			if rapid.IntRange(0, 4).Draw(t, "conditional") == 0 {
				none := int64(0)
				c.IfVersion = &none
			}
			turn.State = append(turn.State, c)
		}
	}
	if parts&4 != 0 {
		turn.Usage = &repo.NewUsage{ID: rapid.SampledFrom(w.usages).Draw(t, "usage"), Cost: repo.Cost(parts % 3)}
	}
	if parts&8 != 0 {
		turn.ID = rapid.SampledFrom(w.messages).Draw(t, "turn").String()
	}
	if parts&16 != 0 {
		turn.Create = &repo.NewSession{Namespace: w.namespace, Owner: "actor1", Actor: "actor1", Existing: repo.ExistingNone}
	}
	switch rapid.IntRange(0, 9).Draw(t, "condition") {
	case 0:
		turn.IfScopes = []repo.ScopeVersion{{Scope: rapid.SampledFrom(scopes).Draw(t, "if")}}
	case 1:
		next := int64(parts % 4)
		turn.Expected = &next
	}
	return turn
}

// turn returns the comparable parts of a turn's result.
func (w *twins) turn(a repo.AppendedTurn) string {
	usage := "none"
	if a.Usage != nil {
		usage = fmt.Sprintf("%+v", *a.Usage)
	}
	scopes := w.versions(a.Scopes)
	if a.Repeated {
		scopes = ""
	}
	return fmt.Sprint(w.say(nil, a.Messages), a.Repeated, a.Created, usage, scopes)
}

// newer counts the versions of a scope that are newer than one: versions are times.
func newer(s repo.ScopeState, than int64) int {
	versions := map[int64]bool{s.Version: s.Version > than}
	for _, v := range s.Values {
		versions[v.Version] = v.Version > than
	}
	maps.DeleteFunc(versions, func(_ int64, newer bool) bool { return !newer })
	return len(versions)
}

// versions returns versions without the time that they begin at.
func (w *twins) versions(scopes []repo.ScopeVersion) string {
	var out []string
	for _, s := range scopes {
		out = append(out, fmt.Sprintf("%+v %v", s.Scope, s.Version > 0))
	}
	return fmt.Sprint(out)
}

// stateValues returns the comparable parts of a scope's state: the version that it begins
// at is a time.
func stateValues(s repo.ScopeState) []string {
	out := []string{fmt.Sprint(s.Version > 0)}
	for _, v := range s.Values {
		out = append(out, fmt.Sprint(v.Key, string(v.Value), newer(s, v.Version)))
	}
	return out
}

// given returns a lease that was given earlier, perhaps in a transaction that was rolled back.
func (w *twins) given(number int) repo.Lease {
	if given := w.leases[w.at]; len(given) > 0 {
		return given[number%len(given)]
	}
	return repo.Lease{}
}

// token returns none, the last or first one that was given for a key, or one of any key.
func (w *twins) token(key repo.LeaseKey, which int) int64 {
	given := w.leases[w.at]
	if which == 3 {
		return w.given(len(given) / 2).Fence
	}
	own := slices.DeleteFunc(slices.Clone(given), func(l repo.Lease) bool { return l.Key != key })
	switch {
	case len(own) == 0 || which == 0:
		return 0
	case which == 1:
		return own[0].Fence
	}
	return own[len(own)-1].Fence
}

// number returns a token's place in the order of their appearance.
func (w *twins) number(token int64) int {
	if !slices.Contains(w.tokens[w.at], token) {
		w.tokens[w.at] = append(w.tokens[w.at], token)
	}
	return slices.Index(w.tokens[w.at], token)
}

// lease returns the comparable parts of leases: tokens are counted in the order of their
// appearance.
func (w *twins) lease(err error, leases ...repo.Lease) string {
	count := w.number
	if conflict, ok := errors.AsType[*repo.LeaseConflictError](err); ok {
		return fmt.Sprint("held by ", conflict.Holder, count(conflict.Fence))
	}
	if lost, ok := errors.AsType[*repo.LeaseLostError](err); ok {
		return fmt.Sprint("lost by ", lost.Owner, count(lost.Fence), lost.Err)
	}
	out := w.say(err)
	for _, l := range leases {
		out += fmt.Sprint(l.Key, l.Owner, count(l.Fence), l.ExpiresAt.Sub(l.AcquiredAt).Round(time.Minute), l.Expired)
	}
	return out
}

// everything reads everything, page by page.
func (w *twins) everything(ctx context.Context, r repo.Repositories) string {
	var out []string
	for _, actor := range []string{"", "actor1"} {
		var lines []string
		for page := (repo.Page{Limit: 1}); ; {
			found, err := r.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, Namespace: w.namespace, Actor: actor}, page)
			lines = append(lines, w.say(err, found.Items))
			if page.After = found.Next; page.After == "" || err != nil {
				break
			}
		}
		out = append(out, lines...)
		for page := (repo.Page{Limit: 1}); ; {
			found, err := r.Leases().List(ctx, repo.LeaseFilter{Owner: w.namespace + actor, Held: true}, page)
			out = append(out, w.lease(err, found.Items...))
			if page.After = found.Next; page.After == "" || err != nil {
				break
			}
		}
	}
	for page := (repo.Page{Limit: 1}); ; {
		found, err := r.Actions().List(ctx, repo.ActionFilter{Namespace: w.namespace}, page)
		out = append(out, w.say(err, found.Items))
		if page.After = found.Next; page.After == "" || err != nil {
			break
		}
	}
	for i := range w.sessions {
		for _, filter := range []repo.PlanFilter{{SessionID: w.sessions[i]}, {ParentID: w.plan(i)}} {
			for page := (repo.Page{Limit: 1}); ; {
				found, err := r.Plans().List(ctx, filter, page)
				out = append(out, w.say(err, found.Items))
				if page.After = found.Next; page.After == "" || err != nil {
					break
				}
			}
		}
		for _, scope := range []repo.Scope{{SessionID: w.sessions[i]}, {Name: w.namespace + "/" + string(rune('a'+i))}} {
			states, err := r.State().Read(ctx, scope)
			out = append(out, w.say(err))
			for _, s := range states {
				out = append(out, stateValues(s)...)
			}
		}
		s, err := r.Sessions().Get(ctx, w.sessions[i])
		out = append(out, w.say(err, s))
		p, err := r.Plans().Get(ctx, w.plan(i))
		out = append(out, w.say(err, p))
		h, err := r.Plans().History(ctx, w.plan(i), 0, 0)
		out = append(out, w.say(err, h))
		m, err := r.Sessions().MessagesFrom(ctx, w.sessions[i], 0, 0)
		out = append(out, w.say(err, m))
		for _, filter := range []repo.AuditFilter{{SessionID: w.sessions[i], OldestFirst: true}, {PlanID: w.plan(i), OldestFirst: true}} {
			var entries []string
			for page := (repo.Page{Limit: 2}); ; {
				found, err := r.Audit().List(ctx, filter, page)
				for _, e := range found.Items {
					entries = append(entries, fmt.Sprint(e.Type, e.Actor, e.SessionID, e.PlanID, string(e.Details)))
				}
				if page.After = found.Next; page.After == "" || err != nil {
					out = append(out, w.say(err))
					break
				}
			}
			count, _, err := r.Audit().Count(ctx, filter, 0)
			slices.Sort(entries) // entries of the same microsecond are ordered by random ids
			out = append(out, w.say(err, count, entries))
		}
	}
	return fmt.Sprintf("%q", out)
}

var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]* \+0000 UTC|0x[0-9a-f]+`)

// say returns the comparable part of an answer: without generated ids, times and
// pointers.
func (w *twins) say(err error, values ...any) string {
	if fenced, is := errors.AsType[*repo.FencedError](err); is {
		return fmt.Sprint("fenced: ", fenced.Key, w.number(fenced.Fence), w.number(fenced.Latest))
	}
	if err != nil {
		return "error: " + versionNumbers.ReplaceAllString(err.Error(), "V")
	}
	for i, value := range values {
		switch value := value.(type) {
		case repo.Session:
			values[i] = w.session(value)
		case []repo.Session:
			for j := range value {
				value[j] = w.session(value[j])
			}
		case []repo.Message:
			for j := range value {
				if !slices.Contains(w.messages, value[j].ID) {
					value[j].ID = repo.ID{}
				}
			}
		case repo.Plan:
			values[i] = plain(value)
		case []repo.Plan:
			for j := range value {
				value[j] = plain(value[j])
			}
		}
	}
	return volatile.ReplaceAllString(fmt.Sprintf("%+v", values), "…")
}

func (w *twins) session(s repo.Session) repo.Session {
	if s.Budget != nil {
		s.Metadata = fmt.Appendf(s.Metadata, " budget %d", *s.Budget)
	}
	return s
}

func plain(p repo.Plan) repo.Plan {
	if p.LastCompletedStep != nil {
		p.Description = fmt.Sprint(p.Description, " step ", *p.LastCompletedStep)
	}
	return p
}

const rolledBack = "rolled back" // the panic that ends a transaction of a run

var errRolledBack = errors.New(rolledBack)

// The store in memory and PostgreSQL, also in a schema of the store's own, give the same
// answers in transactions that are committed, rolled back or end in a panic, and outside of
// transactions.
func TestStoresAnswerAlike(t *testing.T) {
	t.Parallel()
	stores := []repo.Store{memory.New(), pgtest.NewStore(t, agentstore.Options{}), newStoreInASchema(t)}
	names := []string{"in memory", "PostgreSQL", "in a schema"}
	if checks := flag.Lookup("rapid.checks").Value; !pgtest.Full() && checks.String() == "100" { // by default
		if err := checks.Set("8"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newTwins()
		both := func(t *rapid.T, each func(repo.Store) string) {
			var first string
			for w.at = range stores {
				switch answer := w.comparable(each(stores[w.at])); {
				case w.at == 0:
					first = answer
				case answer != first:
					t.Fatalf("%s: %s\n%s: %s", names[0], first, names[w.at], answer)
				}
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			operations := make([]operation, rapid.IntRange(1, 8).Draw(t, "operations"))
			for i := range operations {
				operations[i] = w.draw(t)
			}
			end := rapid.SampledFrom([]string{"commit", "roll back", "panic", "none"}).Draw(t, "end")
			both(t, func(store repo.Store) (answers string) {
				if end == "none" {
					for _, o := range operations {
						answers += o.name + ": " + o.run(t.Context(), store) + "\n"
					}
					return answers
				}
				defer func() {
					if recovered := recover(); recovered != nil && recovered != rolledBack {
						panic(recovered)
					}
				}()
				err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					answers = ""
					for _, o := range operations {
						answers += o.name + ": " + o.run(ctx, tx) + "\n"
					}
					answers += w.everything(ctx, tx)
					answers += "outside: " + w.everything(t.Context(), store)
					switch end {
					case "panic":
						panic(rolledBack)
					case "roll back":
						return errRolledBack
					}
					return nil
				})
				return answers + w.say(err)
			})
			both(t, func(store repo.Store) string { return w.everything(t.Context(), store) })
			for _, id := range w.sessions {
				for i, store := range stores {
					var document bytes.Buffer
					if err := store.Sessions().Export(t.Context(), id, &document); err == nil {
						w.documents[i][id] = document.Bytes()
					}
				}
			}
		}
	})
}
