package view

import (
	"context"
	"io"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// sessions is repo.Sessions. It embeds nothing, so that a method that is new in the contract is
// missing here.
type sessions struct {
	view  *view
	below repo.Sessions
}

// made returns a session that was made, or was found in its place.
func (s sessions) made(session repo.Session, err error) (repo.Session, error) {
	switch {
	case err != nil:
		return repo.Session{}, err
	case session.Namespace != s.view.namespace:
		return repo.Session{}, rules.InOtherNamespace(session.ID)
	}
	s.view.learn("session", session.ID)
	s.links(&session)
	return session, nil
}

// links leaves out plans of other namespaces, which the whole store may have linked to a session.
func (s sessions) links(session *repo.Session) {
	session.Plans = slices.DeleteFunc(session.Plans, func(p repo.LinkedPlan) bool { return p.Namespace != s.view.namespace })
}

func (s sessions) Create(ctx context.Context, session repo.NewSession) (repo.Session, error) {
	if err := s.view.own("namespace", &session.Namespace); err != nil {
		return repo.Session{}, err
	}
	return s.made(s.below.Create(ctx, session))
}

func (s sessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	session, err := s.below.Get(ctx, id)
	if err = s.view.found("session", id, session.Namespace, err); err != nil {
		return repo.Session{}, err
	}
	s.links(&session)
	return session, nil
}

func (s sessions) Find(ctx context.Context, key repo.SessionKey) (repo.ID, error) {
	switch is, err := s.view.selects(&key.Namespace); {
	case err != nil:
		return repo.ID{}, err
	case !is:
		return repo.ID{}, &repo.NotFoundError{Kind: "session", Name: key.Key, Namespace: key.Namespace}
	}
	id, err := s.below.Find(ctx, key)
	return id, s.view.found("session", id, key.Namespace, err)
}

func (s sessions) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	stands, _, err := s.view.sessions(ctx, read.IDs...)
	if err != nil {
		return repo.Snapshot{}, err
	}
	read.IDs = slices.Clone(read.IDs)
	for i, id := range read.IDs {
		read.IDs[i] = stands.of(id)
	}
	snapshot, err := s.below.Read(ctx, read)
	for _, found := range snapshot.Sessions {
		if found != nil {
			s.links(&found.Session)
		}
	}
	return snapshot, err
}

func (s sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (list repo.List[repo.Session], err error) {
	if is, err := s.view.selects(&filter.Namespace); !is {
		return list, err
	}
	list, err = s.below.List(ctx, filter, page)
	for i := range list.Items {
		s.links(&list.Items[i])
	}
	return list, err
}

func (s sessions) Namespaces(ctx context.Context, page repo.Page) (repo.List[string], error) {
	list, err := rules.NamespaceList(page)
	if err != nil {
		return repo.List[string]{}, err
	}
	found, err := s.below.List(ctx, repo.SessionFilter{Namespace: s.view.namespace, AnyOwner: true}, repo.Page{Limit: 1})
	if err != nil || len(found.Items) == 0 || list.After >= s.view.namespace {
		return repo.List[string]{}, err
	}
	return repo.List[string]{Items: []string{s.view.namespace}}, nil
}

func (s sessions) Update(ctx context.Context, id repo.ID, update repo.SessionUpdate) (repo.Session, error) {
	updated, err := session(ctx, s.view, id, func(in repo.ID) (repo.Session, error) { return s.below.Update(ctx, in, update) })
	s.links(&updated)
	return updated, err
}

func (s sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	return session(ctx, s.view, id, func(in repo.ID) (repo.Usage, error) { return s.below.AddUsage(ctx, in, add) })
}

func (s sessions) Fork(ctx context.Context, id repo.ID, at int64, fork repo.NewSession) (repo.Session, error) {
	if err := s.view.own("namespace", &fork.Namespace); err != nil {
		return repo.Session{}, err
	}
	return session(ctx, s.view, id, func(in repo.ID) (repo.Session, error) { return s.made(s.below.Fork(ctx, in, at, fork)) })
}

func (s sessions) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) (repo.DeletedSession, error) {
	return session(ctx, s.view, id, func(in repo.ID) (repo.DeletedSession, error) { return s.below.Delete(ctx, in, conditions...) })
}

// RemoveDeleted removes what is left of the deleted sessions of all namespaces.
func (s sessions) RemoveDeleted(ctx context.Context, limit int) (removed int64, more bool, err error) {
	return s.below.RemoveDeleted(ctx, limit)
}

func (s sessions) Hold(ctx context.Context, hold repo.LegalHold) error {
	if err := s.hold(ctx, hold, false); err != nil {
		return err
	}
	return s.below.Hold(ctx, hold)
}

func (s sessions) Release(ctx context.Context, hold repo.LegalHold) error {
	if err := s.hold(ctx, hold, true); err != nil {
		return err
	}
	return s.below.Release(ctx, hold)
}

// hold checks that what a hold names is in the view.
func (s sessions) hold(ctx context.Context, hold repo.LegalHold, releases bool) error {
	if err := rules.CheckLegalHold(hold, releases); err != nil {
		return err
	}
	if hold.SessionID.IsZero() {
		return s.view.own("namespace", &hold.Namespace)
	}
	stands, _, err := s.view.sessions(ctx, hold.SessionID)
	if err == nil && len(stands) > 0 {
		err = &repo.NotFoundError{Kind: "session", ID: hold.SessionID}
	}
	return err
}

func (s sessions) Holds(ctx context.Context, page repo.Page) (repo.List[repo.LegalHold], error) {
	return s.below.Holds(ctx, page)
}

func (s sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) (repo.Message, error) { return s.below.Message(ctx, in, id) })
}

func (s sessions) MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) ([]repo.Message, error) { return s.below.MessagesFrom(ctx, in, from, limit) })
}

func (s sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64, limit int) ([]repo.Message, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) ([]repo.Message, error) { return s.below.MessagesBefore(ctx, in, before, limit) })
}

func (s sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) ([]repo.Message, error) { return s.below.LastMessages(ctx, in, limit) })
}

func (s sessions) MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) ([]repo.Message, error) { return s.below.MessagesOfCall(ctx, in, callID) })
}

func (s sessions) Turn(ctx context.Context, sessionID repo.ID, id string) (repo.AppendedTurn, error) {
	turn, err := session(ctx, s.view, sessionID, func(in repo.ID) (repo.AppendedTurn, error) { return s.below.Turn(ctx, in, id) })
	s.appended(err, &turn)
	return turn, err
}

func (s sessions) Branches(ctx context.Context, sessionID repo.ID, sequence int64) ([]repo.Branch, error) {
	return session(ctx, s.view, sessionID, func(in repo.ID) ([]repo.Branch, error) { return s.below.Branches(ctx, in, sequence) })
}

func (s sessions) Messages(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return ofSession(ctx, s.view, sessionID, func(in repo.ID) iter.Seq2[repo.Message, error] { return s.below.Messages(ctx, in, from) })
}

func (s sessions) Follow(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return ofSession(ctx, s.view, sessionID, func(in repo.ID) iter.Seq2[repo.Message, error] { return s.below.Follow(ctx, in, from) })
}

// ofSession is session for what yields.
func ofSession[V any](ctx context.Context, v *view, id repo.ID, all func(id repo.ID) iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		stands, _, err := v.sessions(ctx, id)
		if err != nil {
			var none V
			yield(none, err)
			return
		}
		for value, err := range all(stands.of(id)) {
			if !yield(value, stands.named(err)) {
				return
			}
		}
	}
}

// Append is what is called most: it has no closure.
func (s sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	if s.view.knows("session", sessionID) {
		return s.below.Append(ctx, sessionID, messages...)
	}
	stands, _, err := s.view.sessions(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	appended, err := s.below.Append(ctx, stands.of(sessionID), messages...)
	return appended, stands.named(err)
}

func (s sessions) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	turns, stands, err := s.turns(ctx, turn)
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	appended, err := s.below.AppendTurn(ctx, turns[0])
	s.appended(err, &appended)
	return appended, stands.named(err)
}

// appended gives a turn the names of the view, which learns what is in it. The plan may be in another namespace, if the whole store
// has added the turn: then it is not found.
func (s sessions) appended(err error, turn *repo.AppendedTurn) {
	cutScopes(turn.Scopes)
	if turn.Plan != nil && s.view.found("plan", turn.Plan.ID, turn.Plan.Namespace, nil) != nil {
		turn.Plan = nil
	}
	if turn.Stream != nil {
		cut(&turn.Stream.Key)
		s.view.learn("stream", turn.Stream.ID)
	}
	if err == nil {
		s.view.learn("session", turn.SessionID)
	}
}

// turns checks turns. It says of those that create their sessions whether these are known: if not, the
// store below looks again (ExistingNone), since somebody else may create them meanwhile.
func (s sessions) turns(ctx context.Context, given ...repo.Turn) ([]repo.Turn, standIns, error) {
	turns := slices.Clone(given)
	ids := make([]repo.ID, len(turns))
	for i, turn := range turns {
		ids[i] = turn.SessionID
	}
	stands, elsewhere, err := s.view.sessions(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	made := map[repo.ID]bool{} // by the first turn of theirs
	for i := range turns {
		turn := &turns[i]
		_, missing := stands[turn.SessionID]
		made[turn.SessionID] = made[turn.SessionID] || turn.Create != nil && !slices.Contains(ids[:i], turn.SessionID)
		if err := s.work(turn, stands); err != nil {
			return nil, nil, err
		}
		switch {
		case turn.Create == nil && missing && !made[turn.SessionID]:
			turn.State, turn.IfScopes = slices.Clone(turn.State), slices.Clone(turn.IfScopes)
			for j := range turn.State {
				turn.State[j].Scope = stands.scope(turn.State[j].Scope)
			}
			for j := range turn.IfScopes {
				turn.IfScopes[j].Scope = stands.scope(turn.IfScopes[j].Scope)
			}
			turn.SessionID = stands.of(turn.SessionID)
			continue
		case turn.Create == nil:
			continue
		case slices.Contains(elsewhere, turn.SessionID):
			return nil, nil, rules.InOtherNamespace(turn.SessionID)
		}
		create := *turn.Create
		if err := s.view.own("create.namespace", &create.Namespace); err != nil {
			return nil, nil, err
		}
		switch create.Existing {
		case "", repo.ExistingSame, repo.ExistingNone, repo.ExistingAny: // any other is refused
			if create.Existing = repo.ExistingSame; missing {
				create.Existing = repo.ExistingNone
			}
		}
		turn.Create = &create
	}
	return turns, stands, nil
}

// work checks the plan and the stream of a turn. What they say of the session must be the turn's, which the
// store below checks.
func (s sessions) work(turn *repo.Turn, stands standIns) (err error) {
	if turn.Action != "" {
		if turn.Action, err = s.view.action(turn.Action); err == nil {
			err = s.view.own("use.namespace", &turn.Use.Namespace)
		}
	}
	if turn.Create == nil {
		turn.Use.SessionID = stands.of(turn.Use.SessionID)
	}
	if turn.Open != nil && turn.Create == nil {
		open := *turn.Open
		open.Session = stands.of(open.Session)
		turn.Open = &open
	}
	return err
}

func (s sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	_, err := session(ctx, s.view, id, func(in repo.ID) (struct{}, error) { return struct{}{}, s.below.Export(ctx, in, w) })
	return err
}

func (s sessions) Import(ctx context.Context, r io.Reader, restore bool) (repo.Session, error) {
	return s.made(s.below.Import(ctx, r, restore))
}
