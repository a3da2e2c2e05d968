package repo

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

const (
	// MaxSealBytes bounds the details of the entries of one seal.
	MaxSealBytes = 16 << 20
	// MaxHeldInPrune bounds the holds that a prune's entry can name.
	MaxHeldInPrune = 20_000
)

// AuditPruneDetails are the details of the entry that a prune records, and its
// bounds: nothing outside of them is removed under its name, and what is not
// within them does not verify as pruned.
type AuditPruneDetails struct {
	// Before bounds OccurredAt, exclusive.
	Before time.Time `json:"before"`
	// Types: empty means all.
	Types  []EventType `json:"types,omitempty"`
	Reason string      `json:"reason,omitempty"`
	// Held is what was on hold. Nil in entries of older versions of the
	// library, which did not say.
	Held *AuditHeldDetails `json:"held,omitempty"`
}

// AuditHeldDetails name holds by the ids' 32 hexadecimal digits.
type AuditHeldDetails struct {
	Plans    []string `json:"plans,omitempty"`
	Sessions []string `json:"sessions,omitempty"`
}

// Covers reports whether the bounds cover an entry of this time, with what its
// leaf keeps of it.
func (d AuditPruneDetails) Covers(occurredAt time.Time, kept AuditKept) bool {
	if !occurredAt.Before(d.Before) || len(d.Types) > 0 && !slices.Contains(d.Types, kept.Type) {
		return false
	}
	if kept.Type == EventAuditPruned || kept.Type == EventAuditGap {
		return false
	}
	return d.Held == nil || !names(d.Held.Plans, kept.PlanID) && !names(d.Held.Sessions, kept.SessionID)
}

// names looks an id up in a sorted list.
func names(list []string, id ID) bool {
	if id.IsZero() {
		return false
	}
	_, found := slices.BinarySearch(list, hex.EncodeToString(id[:]))
	return found
}

// ParsePruneDetails reads the details of an entry of the type EventAuditPruned.
func ParsePruneDetails(details json.RawMessage) (AuditPruneDetails, error) {
	var d AuditPruneDetails
	if err := json.Unmarshal(details, &d); err != nil || d.Before.IsZero() {
		return AuditPruneDetails{}, invalid("details", "are not those of a prune")
	}
	if d.Held != nil {
		slices.Sort(d.Held.Plans)
		slices.Sort(d.Held.Sessions)
	}
	return d, nil
}

// PruneEntry returns the entry that records a prune, without its times. It is for
// those who implement a store. Errors: InvalidError.
func PruneEntry(prune AuditPrune, holds []AuditHold) (AuditEntry, error) {
	if len(holds) > MaxHeldInPrune {
		return AuditEntry{}, invalid("holds", "are more than 20,000, which a prune's entry cannot name")
	}
	d := AuditPruneDetails{Before: prune.Before, Types: prune.Types, Reason: prune.Reason, Held: &AuditHeldDetails{}}
	for _, hold := range holds {
		if hold.PlanID.IsZero() {
			d.Held.Sessions = append(d.Held.Sessions, hex.EncodeToString(hold.SessionID[:]))
		} else {
			d.Held.Plans = append(d.Held.Plans, hex.EncodeToString(hold.PlanID[:]))
		}
	}
	slices.Sort(d.Held.Plans)
	slices.Sort(d.Held.Sessions)
	details, err := json.Marshal(d)
	if err != nil {
		return AuditEntry{}, err
	}
	return AuditEntry{ID: NewID(), Type: EventAuditPruned, Actor: prune.Actor, Details: details}, nil
}
