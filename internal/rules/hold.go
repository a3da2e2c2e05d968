package rules

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// DeleteIf checks the conditions of a deletion, and returns what they are together.
func DeleteIf(conditions []repo.DeleteIf) (all repo.DeleteIf, err error) {
	for i, c := range conditions {
		switch {
		case c.Version < 0:
			return all, invalid(at("conditions", i)+".version", "is negative")
		case c.Version > 0 && all.Version > 0 && c.Version != all.Version:
			return all, invalid(at("conditions", i)+".version", "differs from the condition before")
		}
		all.Version = max(all.Version, c.Version)
		c.IdleSince = c.IdleSince.Truncate(time.Microsecond) // as it is stored
		if c.Messages != nil {
			if all.Messages != nil && *c.Messages != *all.Messages {
				return all, invalid(at("conditions", i)+".messages", "differs from the condition before")
			}
			all.Messages = new(*c.Messages)
		}
		if all.IdleSince.IsZero() || !c.IdleSince.IsZero() && c.IdleSince.Before(all.IdleSince) {
			all.IdleSince = c.IdleSince
		}
	}
	return all, nil
}

// InUse says by what a session is in use, so that it is not deleted for its age (DeleteIf.IdleSince), whenever the last
// message was appended. Empty: by nothing.
type InUse string

// What a session is in use by.
const (
	InUseByPlan   InUse = "plan"   // one in the tree of a plan that the session is linked to IsOpen
	InUseByLease  InUse = "lease"  // the session's (repo.LeaseOfSession) is held
	InUseByStream InUse = "stream" // one of the session's is open, and has not expired
)

// Deletable returns why a session may not be deleted, or nil.
func Deletable(id repo.ID, conditions repo.DeleteIf, held bool, inUse InUse, version, messages int64,
	activeAt time.Time,
) error {
	switch {
	case held:
		return Held(id)
	case conditions.Version > 0 && conditions.Version != version:
		return &repo.VersionConflictError{Kind: "session", ID: id, Expected: conditions.Version, Actual: version}
	case !conditions.IdleSince.IsZero() && !activeAt.Before(conditions.IdleSince):
		return &repo.RefusedError{Kind: "session", ID: id, Reason: "was active at " + activeAt.Format(time.RFC3339)}
	case !conditions.IdleSince.IsZero() && inUse != "":
		return &repo.RefusedError{Kind: "session", ID: id, Reason: "is in use by a " + string(inUse)}
	case conditions.Messages != nil && *conditions.Messages != messages:
		return &repo.RefusedError{Kind: "session", ID: id, Reason: fmt.Sprintf("has %d messages", messages)}
	}
	return nil
}

// PlanDeleteIf checks the conditions of a plan's deletion, and returns what they are together.
func PlanDeleteIf(conditions []repo.DeleteIf) (repo.DeleteIf, error) {
	all, err := DeleteIf(conditions)
	return all, cmp.Or(err, invalidIf(all.Messages != nil, "conditions", "name the messages of a plan"))
}

// PlanDeletable returns why a plan may not be deleted for the conditions, or nil.
func PlanDeletable(id repo.ID, conditions repo.DeleteIf, version int64, updatedAt time.Time) error {
	switch {
	case conditions.Version > 0 && conditions.Version != version:
		return &repo.VersionConflictError{Kind: "plan", ID: id, Expected: conditions.Version, Actual: version}
	case !conditions.IdleSince.IsZero() && !updatedAt.Before(conditions.IdleSince):
		return &repo.RefusedError{Kind: "plan", ID: id, Reason: "was changed at " + updatedAt.Format(time.RFC3339)}
	}
	return nil
}

// Held is the error of deleting what a legal hold keeps.
func Held(id repo.ID) error {
	return &repo.RefusedError{Kind: "hold", ID: id, Reason: "is kept by a legal hold"}
}

// CheckLegalHold checks a hold. Releasing one needs no reason.
func CheckLegalHold(view string, h repo.LegalHold, releasing bool) error {
	return cmp.Or(
		invalidIf(h.SessionID.IsZero() == (h.Namespace == ""), "hold", "does not name either a session or a namespace"),
		invalidIf(h.Namespace == "" && h.Owner != "", "hold.owner", "is set without a namespace"),
		checkNames(name{"hold.namespace", h.Namespace}),
		checkText("hold.owner", h.Owner, limits.MaxUserIDBytes),
		invalidIf(!releasing && h.Reason == "", "hold.reason", "is empty"),
		checkText("hold.reason", h.Reason, 64<<10),
		invalidIf(h.Namespace != "" && !IsInView(view, h.Namespace), "hold.namespace", "is not the store's"),
	)
}

// HoldList checks a page of holds, or of a view's holds, whose places have only holds.
func HoldList(view string, page repo.Page) (List[struct{}, repo.LegalHold, repo.LegalHold], error) {
	return newList(nil, struct{}{}, page, repo.LegalHold{}, PlaceOfHold, InView(view, "holds"))
}

// PlaceOfHold is what identifies a hold.
func PlaceOfHold(h repo.LegalHold) repo.LegalHold {
	return repo.LegalHold{SessionID: h.SessionID, Namespace: h.Namespace, Owner: h.Owner}
}

// CompareHolds orders holds as lists do.
func CompareHolds(a, b repo.LegalHold) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner),
		a.SessionID.Compare(b.SessionID))
}

// HeldMessages is the error of an erasure of a session whose messages a hold keeps: its own hold, or a hold of a
// fork which has them.
func HeldMessages(id repo.ID) error {
	return &repo.RefusedError{Kind: "hold", ID: id, Reason: "has messages that a legal hold keeps"}
}
