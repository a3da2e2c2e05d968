package repotest

import (
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditLogCalls are those of auditlog.Store. If stores share a database, other tests change it meanwhile.
var auditLogCalls = []call{
	{name: "Log.Sink", args: sealed()},
	{name: "Log.Holds", reads: true, moving: true, args: sealed()},
	{name: "Log.Doctor", reads: true, moving: true, args: sealed()},
	{name: "Log.Identity", reads: true, args: sealed()},
	{name: "Log.Checkpoint", reads: true, moving: true, args: sealed()},
	{name: "Log.Leaves", reads: true, moving: true, args: sealed(0, repo.MaxPageSize)},
	{name: "Log.Strays", reads: true, moving: true, args: sealed(10)},
	{name: "Log.Lost", reads: true, moving: true, args: sealed(10)},
	{name: "Log.Waiting", reads: true, moving: true, args: sealed(10)},
	{name: "Log.Hashes", reads: true, args: sealed([]int64{0})},
	{name: "Log.Leaf", reads: true, args: func(f *fixture) args {
		f.seal()
		return args{f.entries()[0].ID}
	}},
	{name: "Log.Hold", args: func(f *fixture) args {
		return args{auditlog.Hold{PlanID: f.entries()[0].PlanID, Reason: "reason"}}
	}},
	{name: "Log.Release", args: func(f *fixture) args { return args{auditlog.Hold{PlanID: f.entries()[0].PlanID}} }},
	{name: "Log.Prune", args: func(f *fixture) args {
		kind, actor := auditType(f.t), "pruner/"+randomName()
		old := auditEntries(kind, 2)
		record(f.t, f.r.Audit(), old...)
		auditSeal(f.t, f.store(), old...)
		f.also = append(f.also, func() any { return auditPrunes(f.t, f.store(), actor) })
		return args{auditlog.Prune{Before: time.Now(), Types: []string{kind}, Actor: actor, Reason: "reason"}}
	}},
	{name: "Log.Seal", moving: true, args: func(f *fixture) args {
		entry := f.entries()[0]
		f.also = append(f.also, func() any {
			auditSeal(f.t, f.store(), entry) // another test's sealer may have come first
			leaf, err := auditLog(f.store()).Leaf(f.t.Context(), entry.ID)
			must(f.t, leaf, err)
			checkpoint, err := auditLog(f.store()).Checkpoint(f.t.Context())
			return []any{leaf, must(f.t, checkpoint, err)}
		})
		return args{1000, func(unsealed auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
			seal := auditMake(unsealed)
			f.extra = append(f.extra, unsealed, seal)
			return seal, nil
		}}
	}},
}

// sinkCalls are those of auditlog.Sink. Close is the last.
var sinkCalls = []call{
	{name: "Sink.Record", args: func(f *fixture) args { return args{[]repo.AuditEntry{f.newEntry(), f.newEntry()}} }},
	// No repository returns quarantined entries.
	{name: "Sink.Quarantine", args: func(f *fixture) args {
		f.entries()
		return args{auditlog.Poison{ID: repo.NewID(), Document: []byte(`{"a":1}`), Reason: "reason"}}
	}},
	{name: "Sink.Close", args: func(f *fixture) args {
		f.entries()
		return nil
	}},
}

// sealed returns arguments for a trail with a sealed entry.
func sealed(given ...any) func(f *fixture) args {
	return func(f *fixture) args {
		f.seal()
		return clone(given)
	}
}

func (f *fixture) seal() { auditSeal(f.t, f.store(), f.entries()[0]) }

func (f *fixture) store() repo.Store { return f.r.(repo.Store) }
