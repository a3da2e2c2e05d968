// Package removal is what a store does for packages retention and erase, and for a spread, besides the contract. It is
// for authors of stores.
package removal

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Keeper is a store that can remove what the contract does not. All stores of this module are.
type Keeper interface {
	repo.Store
	Removal() Store
}

// Store removes and replaces what the contract only adds to.
type Store interface {
	// RemoveTurns removes up to limit records of turns that were added before a time, and from another one on. A turn
	// that is repeated later is added again. It leaves and counts the records of sessions that a legal hold keeps. It
	// goes on at next; zero: it has finished. With dryRun it counts all, and removes nothing.
	RemoveTurns(ctx context.Context, from, before time.Time, limit int,
		dryRun bool) (removed, held int64, next time.Time, err error)
	// Idle counts the sessions to which nothing was appended since the minute of the times, by namespace, and says for how
	// long the first one is due by that. Of the first 10,001 it leaves out sessions that a legal hold keeps, or that are
	// in use.
	Idle(ctx context.Context, since map[string]time.Time) (sessions int64, longest time.Duration, err error)
	// Forget replaces what is stored of a person where a row stays, and what tells of them in the audit trail, in
	// transactions of bounded size. It may be repeated, and then goes on. The zero Person: it only checks the
	// permission. In PostgreSQL only the owner of the tables may. Errors: ErrPermission; RefusedError of the kind
	// "hold" if a hold keeps the messages.
	Forget(ctx context.Context, person Person) (Forgotten, error)
	// Judge says of each session that is there what keeps it from being deleted for its age.
	Judge(ctx context.Context, sessions []repo.ID) ([]Judgement, error)
	// Left reports whether RemoveDeleted or RemoveExpired have left anything that they would remove, also because others
	// are at it.
	Left(ctx context.Context) (bool, error)
	// HeldFork returns a session that a legal hold keeps, and which has messages of the owner's sessions. Zero: there is
	// none.
	HeldFork(ctx context.Context, owner string, namespaces []string) (repo.ID, error)
	// Kept counts the messages of deleted sessions that forks have: their own ones, and all, with what came with imports
	// of them.
	Kept(ctx context.Context, sessions []repo.ID) (own, all int64, err error)
	// Made returns the plans that were made for sessions, also for deleted ones, and the plans below them.
	Made(ctx context.Context, sessions []repo.ID) ([]repo.ID, error)
	// Namespaces returns the namespaces of sessions, leases and shared scopes of state, without the one in which a
	// spread keeps its places.
	Namespaces(ctx context.Context) ([]string, error)
	// Has reports whether a namespace has sessions, plans, actions, streams, shared scopes of state or leases. Leases
	// of DefaultNamespace are left out: each store has retention's there.
	Has(ctx context.Context, namespace string) (bool, error)
	// Names returns up to 10,000 of the names that are stored, behind one, by kind and then name. It reads everything.
	Names(ctx context.Context, after Name) ([]Name, error)
}

// Judgement is the judgement of one session.
type Judgement struct {
	ID          repo.ID
	Held, InUse bool
	Inherited   int64 // messages that a fork has of others, which Session.MessageCount counts
}

// Together is a removal.Store that deletes several sessions in one transaction.
type Together interface {
	DeleteTogether(ctx context.Context, all []Deletion) error
}

// Deletion is the deletion of one session, and its outcome.
type Deletion struct {
	ID repo.ID
	If repo.DeleteIf
	// Err says why the session stays, or NotFoundError; ErrContention if another transaction has locked it.
	Deleted repo.DeletedSession
	Err     error
}

// Batch returns how many sessions of the front are deleted together, so that they have about as many rows.
func Batch(sessions []repo.Session, rows int) (n int) {
	for left := int64(rows); n < len(sessions); n++ {
		// What there is of any session, and what is removed of it at once.
		left -= 10 + min(sessions[n].MessageCount, 1000)
		if left < 0 && n > 0 {
			break
		}
	}
	return n
}

// Delete deletes sessions, each as Sessions.Delete does: in one transaction if the store can, which then skips
// locked sessions instead of waiting; in a view one by one. Each Deletion has its outcome, also if none was made.
func Delete(ctx context.Context, store repo.Store, all []Deletion) {
	if keeper, is := store.(Keeper); is {
		if together, is := keeper.Removal().(Together); is {
			if err := together.DeleteTogether(ctx, all); err != nil {
				for i := range all {
					all[i].Err = err
				}
			}
			return
		}
	}
	for i := range all {
		d := &all[i]
		d.Deleted, d.Err = store.Sessions().Delete(ctx, d.ID, d.If)
	}
}

// Person says what is a person's.
type Person struct {
	// Names are the names by which the person owns and acts, in the namespaces; empty: in all.
	Names, Namespaces []string
	// Sessions and Plans are about to be deleted, or were: the user and the details of audit entries about them are
	// erased, and the messages of these sessions in forks, also in imported ones.
	Sessions, Plans []repo.ID
}

// Name is a name that a person may have: an owner, an actor, or a shared scope of state.
type Name struct {
	Scope bool
	Name  string
}

// Forgotten counts what was replaced.
type Forgotten struct {
	Events      int64 `json:"events"`        // of the history of plans
	Altered     int64 `json:"altered_plans"` // that the person had made, failed or cancelled
	Entries     int64 `json:"audit_entries"`
	Quarantined int64 `json:"quarantined"`
	Actions     int64 `json:"actions"`
	Streams     int64 `json:"streams"`
	Texts       int64 `json:"fork_messages"` // of the sessions, which forks have
	// plans, audit entries and sessions of others that a legal hold keeps: they are left
	Held int64 `json:"held"`
	// Live counts plans that the person has made, and that have work to do: their texts and their maker are left. Cancel
	// them, and erase again.
	Live int64 `json:"live_plans"`
	// Named counts leases of the names that were kept, since they are held or their tokens are ahead of the database's
	// clock. Erase again.
	Named int64 `json:"named_leases"`
}

// Add adds what another call has replaced.
func (f *Forgotten) Add(other Forgotten) {
	f.Events += other.Events
	f.Altered += other.Altered
	f.Entries += other.Entries
	f.Quarantined += other.Quarantined
	f.Actions += other.Actions
	f.Streams += other.Streams
	f.Texts += other.Texts
	f.Held += other.Held
	f.Live += other.Live
	f.Named += other.Named
}
