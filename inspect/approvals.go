package inspect

import (
	"cmp"
	"context"

	"github.com/seed-df90f812/agentstore/approval"
)

// asking returns the requests of the namespace that is looked at.
func (l *look) asking() *approval.Approvals {
	return ok(approval.New(l.Inspector.store, l.namespace, l.options.Approvals))
}

// approvals shows what waits for the viewer, or for the decider that the viewer chooses.
func (l *look) approvals() *page {
	name := cmp.Or(l.r.FormValue("for"), l.access.Viewer)
	list := ok(l.asking().List(l.ctx, name, l.page()))
	s := l.table(section{
		Key: "approvals", Title: "Waits for " + name, Next: l.next(list.Next), Empty: "Nothing waits.", Form: l.filter("for"),
	}, list.Items, false, "Ref.ID Kind By Until SessionID PlanID")
	for i, r := range list.Items {
		s.Rows[i][0] = link(l.url("/approval", "session", r.SessionID, "approval", r.ID), r.ID)
	}
	return &page{Title: "Approvals", Current: "Approvals", Sections: []section{s}}
}

// approval shows one request.
func (l *look) approval() *page {
	session := ok(l.store.Sessions().Get(l.ctx, l.given("session")))
	l.namespace = session.Namespace
	r := ok(l.asking().Get(l.ctx, approval.Ref{SessionID: session.ID, ID: l.r.FormValue("approval")}))
	shown := l.contents(session.Namespace, session.ID, r.PlanID)
	about := section{Key: "approval", Fields: l.fields(r, shown,
		"Status Kind By Quorum Until UpdatedAt SessionID PlanID ArgumentsHash *Subject *Text")}
	for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny} {
		if l.access.Actions && r.Status == approval.Open {
			to := l.url("/act", "do", verdict, "session", session.ID, "approval", r.ID, "sum", r.Sum())
			about.Fields = append(about.Fields, field{words(string(verdict)), link(to, string(verdict)+" it…")})
		}
	}
	votes := l.table(section{Key: "votes", Title: "Votes", Empty: "None."}, r.Votes, shown, "By Verdict *Reason")
	return &page{Title: "Approval " + r.ID, Current: "Approvals", Sections: []section{about, votes}}
}

// decide decides in the viewer's name. Package approval checks that the viewer may, and records it.
func (l *look) decide(ctx context.Context, on target) error {
	_, err := l.asking().Decide(ctx, on.who, approval.Answer{
		Ref:     approval.Ref{SessionID: on.session, ID: on.approval},
		Verdict: approval.Verdict(l.r.FormValue("do")), Reason: on.reason, Sum: on.sum,
	})
	return err
}
