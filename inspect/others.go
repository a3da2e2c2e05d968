package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// holder names the holder of a lease.
func holder(lease repo.Lease) value {
	until := map[bool]string{
		true:  "expired at ",
		false: "until ",
	}[lease.Expired] + lease.ExpiresAt.UTC().Format(time.DateTime)
	return value{
		Text: fmt.Sprintf("%s, %s UTC, fence %d", lease.Owner, until, lease.Fence),
		JSON: map[string]any{
			"owner": lease.Owner, "expires_at": lease.ExpiresAt.UTC(), "expired": lease.Expired,
			"fence": lease.Fence,
		},
	}
}

func (l *look) leases() *page {
	filter := repo.LeaseFilter{Kind: l.r.FormValue("kind"), Owner: l.r.FormValue("owner"), Name: l.r.FormValue("name")}
	list := ok(l.in(l.namespace).Leases().List(l.ctx, filter, l.page()))
	s := l.table(section{
		Key: "leases", Next: l.next(list.Next), Empty: "No lease matches.", Form: l.filter("kind", "name", "owner"),
	}, list.Items, false, "Key.Kind Key.Name Owner Fence AcquiredAt ExpiresAt Expired")
	for i, lease := range list.Items {
		if id, err := repo.ParseID(lease.Key.Name); err == nil && (lease.Key.Kind == repo.LeaseOfSession ||
			lease.Key.Kind == repo.LeaseOfPlan) {
			s.Rows[i][1] = l.addressed("/"+lease.Key.Kind+"s/", id, "")
		}
		if l.access.Actions {
			s.Rows[i] = append(s.Rows[i], link(l.url("/act", "do", "release", "kind", lease.Key.Kind, "name", lease.Key.Name,
				"fence", lease.Fence), "release…"))
		}
	}
	if l.access.Actions {
		s.Columns = append(s.Columns, "Action")
	}
	return &page{Title: "Leases", Current: "Leases", Sections: []section{s}}
}

// streams shows the streams of a session; without one it asks for a key.
func (l *look) streams() *page {
	id := l.given("session")
	if id.IsZero() {
		f := &form{
			Method: "get", Action: l.options.Prefix + "/stream", Button: "Show",
			Inputs: []input{{Name: "key", Label: "Key of a stream", Type: "text"}},
		}
		return &page{Title: "Streams", Current: "Streams", Sections: []section{{
			Key: "find", Form: l.keep(f),
			Note: "The streams of a session are with it.",
		}}}
	}
	session := ok(l.store.Sessions().Get(l.ctx, id))
	list := ok(l.in(session.Namespace).Streams().List(l.ctx, id, l.page()))
	s := l.table(section{
		Key: "streams", Next: l.next(list.Next), Empty: "It has no streams, or all have expired.",
	}, list.Items, false, "Key Status Next Owner Fence OpenedAt ExpiresAt")
	s.Columns[2] = "Parts"
	for i, stream := range list.Items {
		s.Rows[i][0].Link = l.url("/stream", "key", stream.Key, "namespace", session.Namespace)
	}
	return &page{Title: title(session), Current: "Sessions", Above: l.tabs(id), Sections: []section{s}}
}

// stream shows the newest stream of a key, and the end of its text.
func (l *look) stream() *page {
	streams := l.in(l.namespace).Streams()
	stream := ok(streams.Get(l.ctx, l.r.FormValue("key")))
	shown := l.contents(l.namespace, stream.Session, repo.ID{})
	s := section{Key: "stream", Fields: l.fields(stream, shown,
		"Key Status Session Owner Next Fence OpenedAt ExpiresAt *Reason")}
	const parts = 500
	var written []byte
	from := max(0, stream.Next-2*parts)
	cut := from > 0
	if shown && stream.Next > 0 {
		for part, err := range streams.Follow(l.ctx, stream.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: from}) {
			if errors.Is(err, repo.ErrStreamFailed) {
				break
			}
			check(err)
			if part.Restart {
				written, cut = nil, false
			}
			written = append(written, part.Data...)
			if over := len(written) - maxShown - margin; over > 0 {
				written, cut = written[over:], true
			}
			if part.Sequence+1 >= stream.Next {
				break
			}
		}
	}
	end := l.options.Redact(string(written))
	if cut || len(end) > maxShown { // the rest of a secret whose beginning is missing
		end = end[min(margin, len(end)/2):]
	}
	s.Fields = append(s.Fields, field{fmt.Sprintf("Text: the last %d parts, up to 64 KiB", parts), l.content(shown, end)})
	return &page{Title: "Stream " + stream.Key, Current: "Streams", Sections: []section{s}}
}

func (l *look) audit() *page {
	filter := repo.AuditFilter{
		Type: l.r.FormValue("type"), User: l.r.FormValue("user"), Actor: l.r.FormValue("actor"),
		SessionID: l.given("session"), PlanID: l.given("plan"),
	}
	p := &page{Title: "Audit trail", Current: "Audit"}
	if l.access.AllNamespaces && !l.chosen {
		l.namespace = ""
	}
	if !filter.SessionID.IsZero() {
		p.Above = l.tabs(filter.SessionID)
	} else if l.r.FormValue("after") == "" {
		p.Sections = l.sealed()
	}
	list := ok(l.store.Audit().List(l.ctx, filter, l.page()))
	p.Sections = append(p.Sections, l.table(section{
		Key: "entries", Title: "Entries", Next: l.next(list.Next), Empty: "No entry matches.",
		Form: l.filter("type", "user", "actor"),
	}, list.Items, false, "OccurredAt Type ID Namespace Actor User SessionID PlanID"))
	return p
}

// log is the sealed log of all namespaces. Nil: the viewer may not see it.
func (l *look) log() auditlog.Store {
	if keeper, is := l.Inspector.store.(interface{ AuditLog() auditlog.Store }); is && l.access.AllNamespaces {
		return keeper.AuditLog()
	}
	return nil
}

// sealed says how far the trail is sealed.
func (l *look) sealed() []section {
	log := l.log()
	if log == nil {
		return nil
	}
	s := section{
		Key: "seal", Title: "Seal",
		Note: "agentstore audit verify compares the trail with the log. Of the entries that wait at most 10,000 are counted.",
	}
	s.Fields = l.fields(ok(log.Waiting(l.ctx, 10_000)), false, "Entries Age")
	s.Fields[0].Name, s.Fields[1].Name = "Entries that wait", "The oldest waits for"
	if checkpoint, err := log.Checkpoint(l.ctx); !errors.Is(err, repo.ErrNotFound) {
		check(err)
		sealed := l.fields(checkpoint, false, "Size CreatedAt")
		sealed[0].Name, sealed[1].Name = "Entries in the checkpoint", "Checkpoint of"
		s.Fields = append(s.Fields, sealed...)
	}
	return []section{s}
}

func (l *look) entry() *page {
	e := ok(l.store.Audit().Entry(l.ctx, l.id()))
	shown := l.contents(e.Namespace, e.SessionID, e.PlanID)
	s := section{Key: "entry", Fields: l.fields(e, shown,
		"ID Type OccurredAt RecordedAt Namespace Actor User Project SessionID PlanID *Details")}
	if log := l.log(); log != nil {
		leaf, err := log.Leaf(l.ctx, e.ID)
		if err == nil {
			s.Fields = append(s.Fields, field{"Sealed as leaf", l.value(reflect.ValueOf(leaf.Sequence))})
		} else if !errors.Is(err, repo.ErrNotFound) {
			check(err)
		}
	}
	return &page{Title: "Audit entry", Current: "Audit", Sections: []section{s}}
}

// health shows what waits, and what Options.Health says of the process and the database.
func (l *look) health() *page {
	l.everything()
	began, whole := time.Now(), l.Inspector.store
	if pinger, is := whole.(interface{ Ping(context.Context) error }); is {
		check(pinger.Ping(l.ctx))
	}
	answer := l.value(reflect.ValueOf(time.Since(began)))
	p := &page{Title: "Health", Current: "Health", Sections: []section{{
		Key: "inspector", Title: "Inspector",
		Fields: []field{
			{"The database answers in", answer}, {"Pages being made", text(fmt.Sprintf("%d of at most %d", len(l.busy),
				cap(l.busy)))},
		},
	}}}
	counts := ok(whole.Plans().Counts(l.ctx, "", repo.Page{Limit: repo.MaxPageSize})).Items
	counts = slices.DeleteFunc(counts, func(c repo.PlanCount) bool { return c.State != repo.PlanQueued })
	queued := l.table(section{Key: "queued", Title: "Plans that wait", Empty: "None."}, counts, false,
		"Namespace Stage.Phase Count Oldest")
	for i, c := range counts {
		queued.Rows[i][0].Link = l.options.Prefix + "/plans?" + url.Values{
			"namespace": {c.Namespace},
			"state":     {"queued"},
		}.Encode()
	}
	p.Sections = append(p.Sections, queued)
	p.Sections = append(p.Sections, l.sealed()...)
	if l.options.Health != nil {
		more := ok(l.options.Health(l.ctx))
		for _, title := range slices.Sorted(maps.Keys(more)) {
			p.Sections = append(p.Sections, l.report(title, reflect.Indirect(reflect.ValueOf(more[title])))...)
		}
	}
	return p
}
