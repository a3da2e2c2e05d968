// Package auditlog is what a store keeps for package audit: the sealed log, holds, prunes
// and the quarantine. It is for authors of stores; a service records and reads entries
// through repo.Audit, and does everything else with package audit.
package auditlog

import "github.com/seed-df90f812/agentstore/repo"

// Keeper is a store that has an audit log. All stores of this module are.
type Keeper interface {
	repo.Store
	AuditLog() Store
}

// Limits of the calls of Store.
const (
	// MaxSealEntries bounds the entries of one seal, and MaxSealBytes their details.
	MaxSealEntries = 10_000
	MaxSealBytes   = 16 << 20
	// MaxHeldInPrune bounds the holds in the entry of a prune.
	MaxHeldInPrune = 20_000
)
