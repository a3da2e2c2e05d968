package repotest

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func bufferTests() []test {
	return []test{
		onPlans("Sessions", testBuffers[repo.Sessions](sessionBuffers)),
		onPlans("Actions", testBuffers[repo.Actions](actionBuffers)),
		onPlans("Plans", testBuffers[repo.Plans](planBuffers)),
		onPlans("Audit", testBuffers[repo.Audit](auditBuffers)),
	}
}

// bufferedReader is a document that can be overwritten once it was read.
type bufferedReader struct {
	Document []byte
	at       int
}

func (r *bufferedReader) Read(p []byte) (int, error) {
	if r.at == len(r.Document) {
		return 0, io.EOF
	}
	n := copy(p, r.Document[r.at:])
	r.at += n
	return n, nil
}

// stocked is a session with everything in it, two messages of fullMessage's kind.
func stocked(t *testing.T, r repo.Repositories) (repo.ID, []repo.Message) {
	t.Helper()
	given := fullSession()
	createAs(t, r.Sessions(), given)
	return given.ID, appendTo(t, r.Sessions(), given.ID, fullMessage(), fullMessage())
}

// whole reads a session with all its messages.
func whole(t *testing.T, r repo.Repositories, id repo.ID) func() any {
	return func() any { return []any{get(t, r.Sessions(), id), readAll(t, r.Sessions(), id)} }
}

var sessionBuffers = bufferCases{
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		created := createAs(t, r.Sessions(), fullSession())
		return buffered{on: r.Sessions(), args: []any{repo.SessionFilter{Namespace: created.Namespace}, repo.Page{}}}
	},
	"Create": func(t *testing.T, r repo.Repositories) buffered {
		given := fullSession()
		return buffered{on: r.Sessions(), args: []any{given}, read: whole(t, r, given.ID)}
	},
	"Update": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		update := repo.SessionUpdate{
			Actor: ptr("new/actor"), AutomationProfile: ptr("new"), Metadata: json.RawMessage(`{"new":1}`), Budget: ptr(repo.Cost(9)),
		}
		return buffered{on: r.Sessions(), args: []any{id, update}, read: whole(t, r, id)}
	},
	"AddUsage": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, repo.NewUsage{ID: repo.NewID(), Cost: 1}}, read: whole(t, r, id)}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		other, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id}, read: whole(t, r, other)}
	},
	"Message": func(t *testing.T, r repo.Repositories) buffered {
		id, messages := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, messages[0].ID}}
	},
	"MessagesFrom": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(0), 0}}
	},
	"MessagesBefore": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(9), 0}}
	},
	"LastMessages": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, 0}}
	},
	"Stream": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(0)}}
	},
	"Append": func(t *testing.T, r repo.Repositories) buffered {
		id := create(t, r.Sessions())
		return buffered{on: r.Sessions(), args: []any{id, []repo.NewMessage{fullMessage(), user("x")}}, read: whole(t, r, id)}
	},
	"AppendAt": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(2), []repo.NewMessage{fullMessage()}}, read: whole(t, r, id)}
	},
	"Export": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		var document bytes.Buffer
		return buffered{
			on: r.Sessions(), args: []any{id, io.Writer(&document)}, read: whole(t, r, id),
			extra: func() []any { return []any{document.Bytes()} },
		}
	},
	"Import": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		document := &bufferedReader{Document: export(t, r.Sessions(), id)}
		remove(t, r.Sessions(), id)
		return buffered{on: r.Sessions(), args: []any{io.Reader(document)}, read: whole(t, r, id)}
	},
}

// action reads an action.
func readAction(t *testing.T, r repo.Repositories, name string) func() any {
	return func() any {
		stored, err := r.Actions().Get(t.Context(), name)
		return must(t, stored, err)
	}
}

var actionBuffers = bufferCases{
	"Create": func(t *testing.T, r repo.Repositories) buffered {
		given := repo.NewAction{Name: actionName(), ActionDefinition: fullDefinition(), CreatedBy: "tester"}
		return buffered{on: r.Actions(), args: []any{given}, read: readAction(t, r, given.Name)}
	},
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Actions(), args: []any{createAction(t, r, fullDefinition())}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		name, err := repo.ParseActionName(createAction(t, r, fullDefinition()))
		must(t, name, err)
		return buffered{on: r.Actions(), args: []any{repo.ActionFilter{Namespace: name.Namespace}, repo.Page{}}}
	},
	"Update": func(t *testing.T, r repo.Repositories) buffered {
		name := plain(t, r)
		return buffered{on: r.Actions(), args: []any{name, int64(0), fullDefinition()}, read: readAction(t, r, name)}
	},
	"Archive": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Actions(), args: []any{createAction(t, r, fullDefinition())}}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		other := createAction(t, r, fullDefinition())
		return buffered{on: r.Actions(), args: []any{plain(t, r)}, read: readAction(t, r, other)}
	},
}

// readPlan reads a plan with its history, and what its action became.
func readPlan(t *testing.T, r repo.Repositories, id repo.ID) func() any {
	return func() any {
		plan := getPlan(t, r, id)
		action, err := r.Actions().Get(t.Context(), plan.Action.String())
		return []any{plan, history(t, r, id), must(t, action, err)}
	}
}

func fullPlan(t *testing.T, r repo.Repositories) repo.Plan {
	t.Helper()
	return usePlan(t, r, createAction(t, r, fullDefinition()), fullUse())
}

var planBuffers = bufferCases{
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{fullPlan(t, r).ID}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{repo.PlanFilter{Namespace: fullPlan(t, r).Namespace}, repo.Page{}}}
	},
	"History": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{fullPlan(t, r).ID, int64(0), 0}}
	},
	"Use": func(t *testing.T, r repo.Repositories) buffered {
		use := fullUse()
		return buffered{on: r.Plans(), args: []any{createAction(t, r, fullDefinition()), use}, read: readPlan(t, r, use.ID)}
	},
	"Transition": func(t *testing.T, r repo.Repositories) buffered {
		id := fullPlan(t, r).ID
		move(t, r, id, repo.TransitionStart)
		cause := causeOf(repo.TransitionFail)
		return buffered{on: r.Plans(), args: []any{id, repo.TransitionFail, cause}, read: readPlan(t, r, id)}
	},
	"Progress": func(t *testing.T, r repo.Repositories) buffered {
		id := fullPlan(t, r).ID
		move(t, r, id, repo.TransitionStart)
		progress := repo.Progress{CompletedStep: ptr(int64(3)), CheckpointID: ptr("checkpoint")}
		return buffered{on: r.Plans(), args: []any{id, progress}, read: readPlan(t, r, id)}
	},
	"Link": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Plans(), args: []any{id, fullPlan(t, r).ID}, read: whole(t, r, id)}
	},
	"Unlink": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		kept, plan := fullPlan(t, r).ID, fullPlan(t, r).ID
		for _, linked := range []repo.ID{kept, plan} {
			if err := r.Plans().Link(t.Context(), id, linked); err != nil {
				t.Fatal(err)
			}
		}
		return buffered{on: r.Plans(), args: []any{id, plan}, read: whole(t, r, id)}
	},
}

func readEntries(t *testing.T, r repo.Repositories, entries ...repo.AuditEntry) func() any {
	return func() any {
		var stored []repo.AuditEntry
		for _, e := range entries {
			entry, err := r.Audit().Entry(t.Context(), e.ID)
			stored = append(stored, must(t, entry, err))
		}
		return stored
	}
}

// recorded are two entries of one plan.
func recorded(t *testing.T, r repo.Repositories) []repo.AuditEntry {
	t.Helper()
	entries := []repo.AuditEntry{auditEntry(), auditEntry()}
	entries[1].PlanID, entries[1].OccurredAt = entries[0].PlanID, entries[1].OccurredAt.Add(time.Second)
	record(t, r.Audit(), clone(entries)...)
	return entries
}

var auditBuffers = bufferCases{
	"Record": func(t *testing.T, r repo.Repositories) buffered {
		entries := []repo.AuditEntry{auditEntry(), auditEntry()}
		return buffered{on: r.Audit(), args: []any{entries}, read: readEntries(t, r, clone(entries)...)}
	},
	"Entry": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Audit(), args: []any{recorded(t, r)[0].ID}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		filter := repo.AuditFilter{PlanID: recorded(t, r)[0].PlanID}
		return buffered{on: r.Audit(), args: []any{filter, repo.OldestFirst, repo.Page{}}}
	},
	"Count": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Audit(), args: []any{repo.AuditFilter{PlanID: recorded(t, r)[0].PlanID}, 0}}
	},
	"Export": func(t *testing.T, r repo.Repositories) buffered {
		entries := recorded(t, r)
		var lines bytes.Buffer
		return buffered{
			on: r.Audit(), args: []any{repo.AuditFilter{PlanID: entries[0].PlanID}, io.Writer(&lines)}, read: readEntries(t, r, entries...),
			extra: func() []any { return []any{lines.Bytes()} },
		}
	},
}
