package inspect

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// action is something that a viewer may do.
type action struct {
	question, button, reason string // reason is the type of its input
	on                       string // the parameters that say what it is about; others are not read
	// do acts in a transaction. Nil: decide does, in one of its own.
	do func(ctx context.Context, tx repo.Repositories, on target) error
}

// target is what is acted on, from the request.
type target struct {
	plan, session          repo.ID
	version, fence         int64
	lease                  repo.LeaseKey
	namespace, reason, who string
	approval, sum          string
}

func transition(to repo.Transition) func(context.Context, repo.Repositories, target) error {
	return func(ctx context.Context, tx repo.Repositories, on target) error {
		_, err := tx.Plans().Transition(ctx, on.plan, to, repo.Cause{Version: on.version, Actor: on.who, Reason: on.reason})
		return err
	}
}

var actions = map[string]action{
	"approve": {"Approve this request?", "Approve", "text", "session approval sum", nil},
	"deny":    {"Deny this request?", "Deny", "text", "session approval sum", nil},
	"cancel": {
		"Cancel this plan, and the live plans below it?", "Cancel the plan", "required", "plan version",
		transition(repo.TransitionCancel),
	},
	"retry": {"Queue this plan again?", "Queue it again", "text", "plan version", transition(repo.TransitionResume)},
	"release": {
		"Release this lease? Its holder is told that it is lost.", "Release the lease", "text", "kind name fence",
		func(ctx context.Context, tx repo.Repositories, on target) error {
			return tx.Leases().Release(ctx, repo.Lease{Key: on.lease, Fence: on.fence})
		},
	},
	"hold": {
		"Keep this session from being deleted, until the hold is released?", "Hold the session", "required", "session",
		func(ctx context.Context, tx repo.Repositories, on target) error {
			return tx.Sessions().AddHold(ctx, repo.LegalHold{SessionID: on.session, Reason: on.reason})
		},
	},
}

// asked returns the action that the request names, its target, and the page to return to.
func (l *look) asked() (a action, on target, back string) {
	a, found := actions[l.r.FormValue("do")]
	if !found || !l.access.Actions {
		check(&live.StatusError{Status: http.StatusForbidden, Public: "You may not do this."})
	}
	on = target{namespace: l.namespace, reason: l.r.FormValue("reason"), who: l.access.Viewer}
	switch a.on {
	case "plan version":
		on.plan, on.version = l.given("plan"), max(0, l.sequence("version"))
		on.namespace, back = ok(l.store.Plans().Get(l.ctx, on.plan)).Namespace, "/plans/"+on.plan.String()
	case "session approval sum":
		on.session, on.approval, on.sum = l.given("session"), l.r.FormValue("approval"), l.r.FormValue("sum")
		on.namespace = ok(l.store.Sessions().Get(l.ctx, on.session)).Namespace
		return a, on, l.url("/approval", "session", on.session, "approval", on.approval)
	case "session":
		on.session = l.given("session")
		on.namespace, back = ok(l.store.Sessions().Get(l.ctx, on.session)).Namespace, "/sessions/"+on.session.String()
	default:
		on.lease, on.fence = repo.LeaseKey{Kind: l.r.FormValue("kind"), Name: l.r.FormValue("name")},
			max(0, l.sequence("fence"))
		back = "/leases"
	}
	return a, on, l.url(back)
}

const tokenCookie = "agentstore_inspect_token"

// confirm asks before something is done.
func (l *look) confirm() *page {
	a, on, _ := l.asked()
	l.namespace = on.namespace
	token := ""
	if cookie, err := l.r.Cookie(tokenCookie); err == nil {
		token = cookie.Value
	}
	if len(token) < 26 {
		token = rand.Text()
		//nolint:gosec // Secure if the request is, perhaps as far as a proxy
		http.SetCookie(l.w, &http.Cookie{
			Name: tokenCookie, Value: token, Path: l.options.Prefix + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
			Secure: l.r.TLS != nil || l.r.Header.Get("X-Forwarded-Proto") == "https",
		})
	}
	f := &form{
		Method: "post", Action: l.options.Prefix + "/act", Button: a.button,
		Inputs: []input{{Name: "token", Type: "hidden", Value: token}},
	}
	about := section{Key: "target", Note: a.question}
	for name := range strings.FieldsSeq("do namespace " + a.on) {
		if given := l.r.FormValue(name); given != "" {
			f.Inputs = append(f.Inputs, input{Name: name, Type: "hidden", Value: given})
			about.Fields = append(about.Fields, field{words(name), value{Text: given, JSON: given, Style: "id"}})
		}
	}
	f.Inputs = append(f.Inputs, input{Name: "reason", Label: "Reason", Type: a.reason})
	return &page{Title: "Confirm", Sections: []section{about, {Key: "confirm", Form: f}}}
}

// act does it, and records it in the same transaction.
func (l *look) act() *page {
	a, on, back := l.asked()
	cookie, err := l.r.Cookie(tokenCookie)
	if err != nil || len(cookie.Value) < 26 || subtle.ConstantTimeCompare([]byte(cookie.Value),
		[]byte(l.r.PostFormValue("token"))) != 1 {
		check(&live.StatusError{Status: http.StatusForbidden, Public: "The form has expired. Go back, and open it again."})
	}
	if l.namespace = on.namespace; a.do == nil {
		check(l.decide(l.ctx, on))
		http.Redirect(l.w, l.r, back, http.StatusSeeOther)
		return nil
	}
	details := map[string]string{"action": l.r.FormValue("do"), "reason": on.reason}
	if on.lease.Kind != "" {
		details["lease"] = repo.JoinKey(on.lease.Kind, on.lease.Name)
	}
	check(l.in(on.namespace).InTx(l.ctx, func(ctx context.Context, tx repo.Repositories) error {
		if err := a.do(ctx, tx, on); err != nil {
			return err
		}
		return tx.Audit().Record(ctx, l.event(EventActed, on.namespace, on.session, on.plan, details))
	}))
	http.Redirect(l.w, l.r, back, http.StatusSeeOther)
	return nil
}
