package directory

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// Counts says how many conversations there are with an entry, of sessions that are deleted, too, until Sweep.
type Counts struct {
	Entries, Starred, Archived int64
	Tags                       map[string]int64
}

// Counts returns the counts, which change with the entries. It reads 1,000 tags at a time. Errors: as of State.List.
func (d *Directory) Counts(ctx context.Context) (Counts, error) {
	counts := Counts{Tags: map[string]int64{}}
	err := d.each(ctx, counters, func(value repo.StateValue, parts []string) error {
		var n int64
		if err := json.Unmarshal(value.Value, &n); err != nil || n == 0 {
			return err
		}
		switch parts[1] {
		case indexAll:
			counts.Entries = n
		case indexStarred:
			counts.Starred = n
		case indexArchived:
			counts.Archived = n
		case indexTag:
			counts.Tags[parts[2]] = n
		}
		return nil
	})
	return counts, err
}

// each calls fn for the keys of the owner's scope that have a first part.
func (d *Directory) each(ctx context.Context, first string, fn func(repo.StateValue, []string) error) error {
	for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
		list, err := d.store.State().List(ctx, repo.Scope{Name: d.scope}, repo.JoinKey(first, ""), page)
		for _, value := range list.Values {
			err = errors.Join(err, fn(value, adapter.SplitKey(value.Key)))
		}
		if page.After = list.Next; err != nil || page.After == "" {
			return err
		}
	}
}

// Scopes returns the names of the shared scopes that have what is kept of the owner, for erase.Request.Scopes: one, and
// one for each entry and each session. Erased in this order, they leave nothing that another call does not find, also
// of entries that change meanwhile, unless the owner begins a session after this call. Errors: those of State.List,
// Sessions.List and Sessions.Read.
func (d *Directory) Scopes(ctx context.Context) (names []string, err error) {
	names = []string{d.scope} // first: an entry that is made after its scope was erased is in the index again
	err = d.each(ctx, indexAll, func(_ repo.StateValue, parts []string) error {
		names = append(names, d.scope+"/"+parts[1])
		return nil
	})
	all := adapter.EachSession(ctx, d.store.Sessions(), repo.SessionFilter{Owner: d.owner}, repo.ReadSessions{})
	for session, failed := range all {
		names, err = append(names, d.scopeOf(session.Session.ID)), errors.Join(err, failed)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Sweep removes the entries of sessions that are deleted, of one page of up to page.Limit entries, by their ids, and
// returns how many there were, and the Next of the page: empty after the last one. Nothing needs it but Counts, and the
// room. It may run in several processes at once. Errors: InvalidError; errors of State and of Sessions.Read.
func (d *Directory) Sweep(ctx context.Context, page repo.Page) (removed int, next string, err error) {
	list, err := d.store.State().List(ctx, repo.Scope{Name: d.scope}, repo.JoinKey(indexAll, ""), page)
	if err != nil || len(list.Values) == 0 {
		return 0, "", err
	}
	var read repo.ReadSessions
	for _, value := range list.Values {
		id, invalid := repo.ParseID(adapter.SplitKey(value.Key)[1])
		read.IDs, err = append(read.IDs, id), errors.Join(err, invalid)
	}
	found, failed := d.store.Sessions().Read(ctx, read)
	if err = errors.Join(err, failed); err != nil {
		return 0, "", err
	}
	for i, session := range found.Sessions {
		if session == nil {
			if err := d.remove(ctx, read.IDs[i], &removed); err != nil {
				return removed, "", err
			}
		}
	}
	return removed, list.Next, nil
}

// remove removes the entry of a session that is deleted, and counts it if this call did.
func (d *Directory) remove(ctx context.Context, id repo.ID, removed *int) error {
	found, err := d.look(ctx, id)
	if err != nil || found.session != nil || found.version == 0 {
		return err
	}
	mark := repo.StateChange{Scope: repo.Scope{Name: d.scopeOf(id)}, Key: keyRead, Op: repo.StateRemove}
	_, err = d.store.State().Change(ctx, append(d.changes(id, found, Entry{}, true), mark))
	switch {
	case err == nil:
		*removed++
		_, err = d.store.State().Erase(ctx, mark.Scope.Name)
	case d.overtaken(err, id):
		err = nil
	}
	return err
}
