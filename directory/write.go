package directory

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// Changes returns the changes of state that edit a conversation's entry, for a turn's State or for State.Change: none
// if it says the same already. The session may be one that the turn creates. If the entry is changed before they are
// made, they are refused with a VersionConflictError of the key "entry": ask for them again, as AppendTurn does.
//
// Errors: InvalidError; NotFoundError if the session is another owner's; errors of Sessions.Read.
func (d *Directory) Changes(ctx context.Context, session repo.ID, edit Edit) ([]repo.StateChange, error) {
	found, err := d.look(ctx, session)
	if err != nil {
		return nil, err
	}
	changes, _, err := d.edit(session, found, edit)
	return changes, err
}

func (d *Directory) edit(id repo.ID, found stored, edit Edit) ([]repo.StateChange, Entry, error) {
	entry, err := edit.apply(found.Entry)
	if err != nil || reflect.DeepEqual(entry, found.Entry) {
		return nil, entry, err
	}
	return d.changes(id, found, entry, false), entry, nil
}

// Set edits a conversation's entry, and returns it. Edits of one conversation wait for each other, and none loses what
// another one has changed. It may be repeated.
//
// Errors: InvalidError; NotFoundError if the owner has no such session; LimitExceededError for a star too many;
// VersionConflictError if others have overtaken it ten times; errors of State.Change.
func (d *Directory) Set(ctx context.Context, session repo.ID, edit Edit) (Entry, error) {
	return d.change(ctx, session, func(found stored) ([]repo.StateChange, Entry, error) {
		return d.edit(session, found, edit)
	})
}

// MarkRead says that the messages before the one with the sequence next are read. A mark only moves forwards: an older
// window changes nothing. Errors: as of Set; InvalidError for a sequence that is negative, or behind the next one.
func (d *Directory) MarkRead(ctx context.Context, session repo.ID, next int64) (Entry, error) {
	return d.change(ctx, session, func(found stored) (changes []repo.StateChange, entry Entry, err error) {
		entry = found.Entry
		switch {
		case next < 0 || next > found.session.MessageCount:
			return nil, entry, &repo.InvalidError{Field: "next", Reason: "is negative, or behind the next sequence"}
		case next <= found.Read:
			return nil, entry, nil
		case found.version == 0:
			changes = d.changes(session, found, entry, false)
		}
		entry.Read = next
		value, _ := json.Marshal(next)
		mark := repo.StateChange{Scope: repo.Scope{Name: d.scopeOf(session)}, Key: keyRead, Value: value}
		mark.IfVersion = &found.readVersion
		return append(changes, mark), entry, nil
	})
}

// change makes the changes that follow from what is stored, again if that has changed meanwhile.
func (d *Directory) change(ctx context.Context, id repo.ID,
	decide func(stored) ([]repo.StateChange, Entry, error),
) (Entry, error) {
	for i := 1; ; i++ {
		found, err := d.look(ctx, id)
		if err == nil && found.session == nil {
			err = &repo.NotFoundError{Kind: "session", ID: id}
		}
		if err != nil {
			return Entry{}, err
		}
		changes, entry, err := decide(found)
		if err == nil && len(changes) > 0 {
			_, err = d.store.State().Change(ctx, changes)
		}
		if err == nil {
			return entry, nil
		}
		if i == attempts || !d.overtaken(err, id) {
			return Entry{}, err
		}
	}
}

// AppendTurn adds a turn to turn.SessionID, which it may create (Turn.Create), and edits the entry with it: both are
// stored, in one commit, or neither. With an ID set turn.Existing, too: a turn that is repeated after a lost answer has
// other changes of state than it had, and is recognized all the same.
//
// Errors: as of Changes, and of Sessions.AppendTurn.
func (d *Directory) AppendTurn(ctx context.Context, turn repo.Turn, edit Edit) (repo.AppendedTurn, error) {
	own := slices.Clip(turn.State)
	if turn.Create != nil && turn.Create.Owner != d.owner {
		return repo.AppendedTurn{}, &repo.InvalidError{Field: "turn.create.owner", Reason: "is not the directory's"}
	}
	for i := 1; ; i++ {
		changes, err := d.Changes(ctx, turn.SessionID, edit)
		if err != nil {
			return repo.AppendedTurn{}, err
		}
		turn.State = append(own, changes...)
		appended, err := d.store.Sessions().AppendTurn(ctx, turn)
		if err == nil || i == attempts || !d.overtaken(err, turn.SessionID) {
			return appended, err
		}
	}
}
