package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// search finds what has an id, a key or an owner.
func (l *look) search() *page {
	asked := strings.TrimSpace(l.r.FormValue("q"))
	s := section{
		Key: "results", Columns: []string{"Kind", "Name"},
		Empty: "Nothing in the namespace " + l.namespace + " has this id, this whole key or this whole owner.",
	}
	found := func(kind string, v value, err error) {
		if err == nil {
			s.Rows = append(s.Rows, []value{text(kind), v})
		} else if !errors.Is(err, repo.ErrNotFound) && !errors.Is(err, repo.ErrInvalid) {
			check(err)
		}
	}
	if id, err := repo.ParseID(asked); err == nil {
		_, err := l.store.Sessions().Get(l.ctx, id)
		found("session", l.addressed("/sessions/", id, ""), err)
		_, err = l.store.Plans().Get(l.ctx, id)
		found("plan", l.addressed("/plans/", id, ""), err)
		_, err = l.store.Audit().Entry(l.ctx, id)
		found("audit entry", l.addressed("/audit/", id, ""), err)
	} else if asked != "" {
		id, err := l.store.Sessions().Find(l.ctx, repo.SessionKey{Namespace: l.namespace, Key: asked})
		found("session", l.addressed("/sessions/", id, asked), err)
		_, err = l.store.Streams().Get(l.ctx, asked)
		found("stream", link(l.url("/stream", "key", asked), asked), err)
		list, err := l.store.Sessions().List(l.ctx, repo.SessionFilter{Namespace: l.namespace, Owner: asked},
			repo.Page{Limit: 1})
		if err != nil || len(list.Items) > 0 {
			found("owner of sessions", link(l.url("/sessions", "owner", asked), asked), err)
		}
	}
	return &page{Title: "Search", Sections: []section{s}}
}

// everything ends the page if the viewer sees one namespace only.
func (l *look) everything() {
	if !l.access.AllNamespaces {
		check(&repo.NotFoundError{Kind: "page"})
	}
	l.namespace = ""
}

func (l *look) namespaces() *page {
	l.everything()
	list := ok(l.Inspector.store.Sessions().Namespaces(l.ctx, l.page()))
	s := section{
		Key: "namespaces", Columns: []string{"Namespace"}, Next: l.next(list.Next),
		Empty: "No namespace has sessions.",
	}
	for _, name := range list.Items {
		s.Rows = append(s.Rows, []value{link(l.options.Prefix+"/sessions?"+url.Values{"namespace": {name}}.Encode(), name)})
	}
	return &page{Title: "Namespaces", Current: "Namespaces", Sections: []section{s}}
}

func (l *look) sessions() *page {
	owner := l.r.FormValue("owner")
	list := ok(l.store.Sessions().List(l.ctx, repo.SessionFilter{
		Namespace: l.namespace, Owner: owner,
		AnyOwner: owner == "", ByActivity: true,
	}, l.page()))
	s := l.table(section{
		Key: "sessions", Next: l.next(list.Next), Form: l.filter("owner"),
		Empty: "The namespace " + l.namespace + " has no such sessions.",
	}, list.Items, false, "ID UpdatedAt Owner Actor MessageCount Usage.Cost")
	s.Columns = append(s.Columns, "Last message")
	read := repo.ReadSessions{Last: 1, WithoutPayload: true, WithoutContent: !l.access.Contents}
	for _, session := range list.Items {
		read.IDs = append(read.IDs, session.ID)
	}
	if len(list.Items) > 0 {
		snapshot := ok(l.store.Sessions().Read(l.ctx, read))
		shown := l.contents(l.namespace, repo.ID{}, repo.ID{})
		for i, session := range list.Items {
			last := value{}
			if found := snapshot.Sessions[i]; found != nil && len(found.Messages) > 0 {
				m := found.Messages[0]
				content := l.content(shown, l.beginning(m.Content)).Text
				last = text(string(m.Role) + ": " + clip(strings.Join(strings.Fields(content), " "), 110))
			}
			s.Rows[i][0] = l.addressed("/sessions/", session.ID, session.Key)
			s.Rows[i] = append(s.Rows[i], last)
		}
	}
	return &page{Title: "Sessions", Current: "Sessions", Sections: []section{s}}
}

// conversation shows pageSize messages: the last ones, or the ones from or before a sequence.
func (l *look) conversation() *page {
	id, branches, before, from := l.id(), l.r.FormValue("branches"), l.sequence("before"), l.sequence("from")
	if before >= 0 {
		from = max(0, before-pageSize)
	}
	read := repo.ReadSessions{
		IDs: []repo.ID{id}, Last: pageSize, Branches: branches != "", WithoutContent: !l.access.Contents,
		WithoutPayload: !l.access.Contents,
	}
	if from >= 0 {
		read.Last, read.First, read.From = 0, pageSize, from
	}
	found := l.one(read)
	session, messages := found.Session, found.Messages
	for before >= 0 && len(messages) > 0 && messages[len(messages)-1].Sequence >= before {
		messages = messages[:len(messages)-1]
	}
	shown := l.contents(session.Namespace, id, repo.ID{})
	path := "/sessions/" + id.String()
	first, end := from, from+pageSize // what the page is about: there may be nothing in it
	switch {
	case len(messages) > 0 && before < 0:
		first, end = messages[0].Sequence, messages[len(messages)-1].Sequence+1
	case from < 0:
		first, end = 0, 0
	case before >= 0:
		end = before
	}
	s := section{
		Key: "messages", Title: "Conversation", Messages: l.fold(messages, shown),
		Empty: "There are no messages here.",
	}
	s.Form = l.keep(&form{Method: "get", Button: "Go", Inputs: []input{
		{Name: "from", Label: "From message", Type: "number"}, {
			Name: "branches", Label: "All branches", Type: "checkbox",
			Value: branches,
		},
	}})
	p := &page{Title: title(session), Current: "Sessions", Above: l.tabs(id)}
	if first > 0 {
		s.Earlier = l.url(path, "before", first, "branches", branches)
	}
	if from >= 0 && end < session.MessageCount {
		s.Next = l.url(path, "from", end, "branches", branches)
	} else if p.Feed = l.url(path + "/events"); session.MessageCount > 0 {
		p.Feed = l.url(path+"/events", "after", fmt.Sprintf("%s.%d", id, session.MessageCount-1))
	}
	p.Sections = []section{s, l.aboutSession(session, shown)}
	return p
}

// sequence reads a parameter. -1: it is not given.
func (l *look) sequence(name string) int64 {
	given := cmp.Or(l.r.PathValue(name), l.r.FormValue(name))
	if given == "" {
		return -1
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 0 {
		check(&repo.InvalidError{Field: name, Reason: "is no sequence"})
	}
	return n
}

// one reads a session with some of its messages, in one statement.
func (l *look) one(read repo.ReadSessions) *repo.SessionSnapshot {
	found := ok(l.store.Sessions().Read(l.ctx, read)).Sessions[0]
	if found == nil {
		check(&repo.NotFoundError{Kind: "session"})
	}
	return found
}

func title(session repo.Session) string { return cmp.Or(session.Key, session.ID.String()) }

// tabs are the pages of a session.
func (l *look) tabs(id repo.ID) []value {
	path := "/sessions/" + id.String()
	all := []value{
		link(l.url(path), "Conversation"), link(l.url(path+"/state"), "State"), link(l.url("/plans", "session", id), "Plans"),
		link(l.url("/streams", "session", id), "Streams"), link(l.url("/audit", "session", id), "Audit"),
	}
	for i := range all {
		if to, _, _ := strings.Cut(all[i].Link, "?"); to == l.options.Prefix+l.r.URL.Path {
			all[i].Style = "page" // for aria-current
		}
	}
	return all
}

// aboutSession returns what is beside the messages: the session, its lease, and the streams that are open.
func (l *look) aboutSession(session repo.Session, shown bool) section {
	in := l.in(session.Namespace)
	s := section{Key: "session", Title: "Session", Fields: l.fields(session, shown,
		"ID Namespace Key Owner Actor AutomationProfile CreatedAt UpdatedAt "+
			"MessageCount Usage.InputTokens Usage.OutputTokens Usage.Cost Budget Version FencedOnly *Metadata")}
	for _, lease := range ok(in.Leases().List(l.ctx, repo.LeaseFilter{
		Kind: repo.LeaseOfSession,
		Name: session.ID.String(),
	}, repo.Page{Limit: 1})).Items {
		s.Fields = append(s.Fields, field{"Lease", holder(lease)})
	}
	for _, stream := range ok(in.Streams().List(l.ctx, session.ID, repo.Page{Limit: 5})).Items {
		if stream.Status == repo.StreamOpen {
			of := link(l.url("/stream", "key", stream.Key, "namespace", session.Namespace),
				fmt.Sprintf("%s parts so far, by %s", grouped(stream.Next), stream.Owner))
			s.Fields = append(s.Fields, field{"Being written", of})
		}
	}
	if l.access.Actions {
		s.Fields = append(s.Fields, field{"Hold", link(l.url("/act", "do", "hold", "session", session.ID),
			"keep it from being deleted…")})
	}
	return s
}

// state shows a page of the keys of a session's state.
func (l *look) state() *page {
	id := l.id()
	session := ok(l.store.Sessions().Get(l.ctx, id))
	list := ok(l.store.State().List(l.ctx, repo.Scope{SessionID: id}, l.r.FormValue("prefix"), l.page()))
	s := l.table(section{
		Key: "state", Title: "State", Next: l.next(list.Next), Form: l.filter("prefix"), Empty: "No key matches.",
		Note: fmt.Sprintf("Version %d", list.Version),
	}, list.Values, l.contents(session.Namespace, id, repo.ID{}), "Key Version UpdatedAt *Value")
	return &page{Title: title(session), Current: "Sessions", Above: l.tabs(id), Sections: []section{s}}
}
