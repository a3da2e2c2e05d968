package share

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// List returns a page of an owner's links, the newest first, also expired ones. It may be short: Next says whether
// there are others. Errors: InvalidError; errors of Sessions.List and of Sessions.Read.
func (l *Links) List(ctx context.Context, owner string, page repo.Page) (links repo.List[Link], err error) {
	if owner == "" {
		return links, &repo.InvalidError{Field: "owner", Reason: "is empty"}
	}
	filter := repo.SessionFilter{AnyOwner: true, Actor: actorOf(owner)} // by the index of actors
	list, err := l.store.Sessions().List(ctx, filter, page)
	if err != nil || len(list.Items) == 0 {
		return links, err
	}
	read := repo.ReadSessions{State: true}
	for _, fork := range list.Items {
		read.IDs = append(read.IDs, fork.ID)
	}
	found, err := l.store.Sessions().Read(ctx, read)
	if err != nil {
		return links, err
	}
	links.Next = list.Next
	for _, fork := range found.Sessions {
		if fork != nil && fork.Session.Owner == owner { // nil: it was revoked meanwhile
			if r, is := recordOf(fork.Session, fork.State); is {
				links.Items = append(links.Items, r.Link)
			}
		}
	}
	return links, nil
}

// Revoke ends a link of an owner's: from then on each Open refuses it. Its fork is deleted, unless a legal hold keeps
// that. Errors: NotFoundError if the owner has no such link, also when it was revoked; errors of State.Change and of
// Sessions.Delete, after which it should be repeated.
func (l *Links) Revoke(ctx context.Context, owner string, id repo.ID) error {
	fork, err := l.store.Sessions().Get(ctx, id)
	if err == nil && (owner == "" || fork.Owner != owner || !IsLink(fork)) {
		err = &repo.NotFoundError{Kind: "link", ID: id}
	}
	if err != nil {
		return err
	}
	gone := repo.StateChange{Scope: repo.Scope{SessionID: id}, Key: recordKey, Op: repo.StateRemove}
	if _, err := l.store.State().Change(ctx, []repo.StateChange{gone}); err != nil {
		return err
	}
	_, err = l.store.Sessions().Delete(ctx, id)
	if refused, is := errors.AsType[*repo.RefusedError](err); is && refused.Kind == "hold" {
		return nil // it opens nothing any more
	}
	return err
}

// Sweep revokes the expired links of a page of an owner's links, and returns how many, and the Next of the page. A
// link ends also without it. Errors: as of List and Revoke.
func (l *Links) Sweep(ctx context.Context, owner string, page repo.Page) (revoked int, next string, err error) {
	now, err := l.clock.Now(ctx)
	if err != nil {
		return 0, "", err
	}
	links, err := l.List(ctx, owner, page)
	for _, link := range links.Items {
		if now.Before(link.Until) {
			continue
		}
		if err := l.Revoke(ctx, owner, link.ID); err != nil && !errors.Is(err, repo.ErrNotFound) {
			return revoked, "", err
		}
		revoked++
	}
	return revoked, links.Next, err
}
