package plans

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// job is what is expected of one plan, and the lease of its claim. lost: that lease was released.
type job struct {
	repo.Plan
	lease repo.Lease
	lost  bool
	spent []repo.Lease // those of earlier claims
}

// later reports whether the job is put off, by far longer than the test lasts.
func (j *job) later() bool { return j.NotBefore.After(time.Now().Add(time.Minute)) }

// jobs are the plans of two namespaces, and what limits them.
type jobs struct {
	store      repo.Store
	namespaces []string
	actions    []string
	limits     map[repo.PlanLimit]int // by namespace and action
	all        []*job
	owners     int
	end        time.Time // of waits
}

func newJobs(t *rapid.T, store repo.Store, end time.Time) *jobs {
	j := &jobs{store: store, end: end, limits: map[repo.PlanLimit]int{}}
	for n := range 2 {
		id := repo.NewID().String()
		j.namespaces = append(j.namespaces, fmt.Sprint("model/", n, id))
		action, err := store.Actions().Create(t.Context(), repo.NewAction{Name: fmt.Sprint("work", n, id), ActionDefinition: repo.ActionDefinition{
			Reusable: true, MaxAttempts: 1 + 2*n, Phases: []repo.Phase{repo.PhaseExecute},
		}})
		if err != nil {
			t.Fatal(err)
		}
		j.actions = append(j.actions, action.Name.String())
	}
	return j
}

func (m *jobs) pick(t *rapid.T, what string, chosen func(*job) bool) *job {
	found := slices.DeleteFunc(slices.Clone(m.all), func(j *job) bool { return !chosen(j) })
	if len(found) == 0 {
		t.Skip("no such plan")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, what)]
}

func (m *jobs) use(t *rapid.T) {
	use := repo.UseAction{Namespace: rapid.SampledFrom(m.namespaces).Draw(t, "namespace"), Priority: rapid.IntRange(0, 1).Draw(t, "priority")}
	if rapid.IntRange(0, 7).Draw(t, "later") == 0 {
		use.NotBefore = time.Now().Add(time.Hour)
	}
	plan, err := m.store.Plans().Use(t.Context(), rapid.SampledFrom(m.actions).Draw(t, "action"), use)
	if err != nil {
		t.Fatal(err)
	}
	m.all = append(m.all, &job{Plan: plan})
}

func (m *jobs) limit(t *rapid.T) {
	limit := repo.PlanLimit{Namespace: rapid.SampledFrom(m.namespaces).Draw(t, "namespace"), AtOnce: rapid.IntRange(-1, 3).Draw(t, "at once")}
	if rapid.Bool().Draw(t, "of an action") {
		limit.Action = rapid.SampledFrom(m.actions).Draw(t, "action")
	}
	if err := m.store.Plans().SetLimit(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	key := repo.PlanLimit{Namespace: limit.Namespace, Action: limit.Action}
	if m.limits[key] = limit.AtOnce; limit.AtOnce < 0 {
		delete(m.limits, key)
	}
}

func (m *jobs) claimed(key repo.PlanLimit) (count int) {
	for _, j := range m.all {
		if j.State == repo.PlanProcessing && j.Namespace == key.Namespace && (key.Action == "" || key.Action == j.Action.String()) {
			count++
		}
	}
	return count
}

// hasRoom reports whether the limits allow one more like this to be claimed, and fits whether they still allow this one.
func (m *jobs) hasRoom(j *job) bool { return m.allow(j, 1) }
func (m *jobs) fits(j *job) bool    { return m.allow(j, 0) }

func (m *jobs) allow(j *job, more int) bool {
	for _, action := range []string{"", j.Action.String()} {
		key := repo.PlanLimit{Namespace: j.Namespace, Action: action}
		if atOnce, limited := m.limits[key]; limited && m.claimed(key)+more > atOnce {
			return false
		}
	}
	return true
}

func (m *jobs) claim(t *rapid.T) {
	m.owners++
	claim := repo.Claim{Owner: fmt.Sprint("worker ", m.owners), Actions: m.actions, Limit: rapid.IntRange(1, 4).Draw(t, "limit"), TTL: time.Hour}
	if one := rapid.IntRange(0, 2).Draw(t, "actions"); one < 2 {
		claim.Actions = m.actions[one : one+1]
	}
	if claim.AllNamespaces = rapid.Bool().Draw(t, "all namespaces"); !claim.AllNamespaces {
		claim.Namespaces = m.namespaces[:rapid.IntRange(1, 2).Draw(t, "namespaces")]
	}
	asked := func(j *job) bool {
		return slices.Contains(claim.Actions, j.Action.String()) && (claim.AllNamespaces || slices.Contains(claim.Namespaces, j.Namespace))
	}
	free := func(j *job) bool { return asked(j) && j.State == repo.PlanQueued && !j.later() && m.hasRoom(j) }
	for ; ; time.Sleep(time.Millisecond) { // pace: a plan may be passed over for a moment
		got, err := m.store.Plans().Claim(t.Context(), claim)
		if err != nil || len(got) > claim.Limit {
			t.Fatalf("claimed %d plans of %d, %v", len(got), claim.Limit, err)
		}
		m.take(t, claim, got, asked)
		left := slices.IndexFunc(m.all, free)
		if left < 0 || len(got) > 0 {
			return
		}
		if time.Now().After(m.end) {
			t.Fatalf("the plan %+v is not claimed", m.all[left].Plan)
		}
	}
}

// take checks what was claimed against the model, and moves that.
func (m *jobs) take(t *rapid.T, claim repo.Claim, got []repo.ClaimedPlan, asked func(*job) bool) {
	paused := map[repo.ID]bool{} // since a limit was lowered
	for _, j := range m.all {
		paused[j.ID] = !m.fits(j)
	}
	for _, j := range m.all { // these make room
		if asked(j) && j.lost && j.Attempt >= j.MaxAttempts {
			j.State, j.Version = repo.PlanErrored, j.Version+1
			j.ErrorMessage = fmt.Sprintf("the claim expired in attempt %d of %d", j.Attempt, j.MaxAttempts)
			j.lost, j.spent = false, append(j.spent, j.lease)
		}
	}
	began := false
	for _, c := range got {
		i := slices.IndexFunc(m.all, func(j *job) bool { return j.ID == c.Plan.ID })
		if i < 0 {
			t.Fatalf("claimed the plan %s of another namespace", c.Plan.ID)
		}
		j := m.all[i]
		want := j.Plan
		switch {
		case !asked(j):
			t.Fatalf("claimed %+v, which was not asked for", j.Plan)
		case j.lost && !began && m.fits(j):
			want.Version, want.Attempt = want.Version+2, want.Attempt+1
			j.spent = append(j.spent, j.lease)
		case j.State == repo.PlanQueued && !j.later() && m.hasRoom(j):
			began = true
			want.Version++
			m.wantFirst(t, j, asked, got)
		default:
			t.Fatalf("claimed %+v (lost: %t) beside the limits %v", j.Plan, j.lost, m.limits)
		}
		want.State, want.NotBefore, want.ErrorMessage, want.ErrorDetails = repo.PlanProcessing, time.Time{}, "", nil
		if c.Lease.Fence <= j.lease.Fence || c.Lease.Owner != claim.Owner {
			t.Fatalf("the lease is %+v after %+v", c.Lease, j.lease)
		}
		j.Plan, j.lease, j.lost = want, c.Lease, false
		m.wantJob(t, c.Plan, j)
	}
	if i := slices.IndexFunc(m.all, func(j *job) bool { return asked(j) && j.lost && !paused[j.ID] }); i >= 0 && len(got) < claim.Limit {
		t.Fatalf("the plan %+v, whose claim has ended, is left", m.all[i].Plan)
	}
}

// wantFirst checks that nothing like the job that was claimed comes before it.
func (m *jobs) wantFirst(t *rapid.T, j *job, asked func(*job) bool, got []repo.ClaimedPlan) {
	for _, other := range m.all {
		like := other.State == repo.PlanQueued && !other.later() && other.Namespace == j.Namespace && other.Action == j.Action && asked(other)
		before := cmp.Or(j.Priority-other.Priority, rules.WaitsSince(other.Plan).Compare(rules.WaitsSince(j.Plan)), other.ID.Compare(j.ID)) < 0
		if like && before && !slices.ContainsFunc(got, func(c repo.ClaimedPlan) bool { return c.Plan.ID == other.ID }) {
			t.Fatalf("claimed %+v before %+v", j.Plan, other.Plan)
		}
	}
}

// move makes a transition of a plan that is held, or lost and not yet taken over.
func (m *jobs) move(t *rapid.T) {
	j := m.pick(t, "plan", func(j *job) bool { return j.State == repo.PlanProcessing })
	transition := rapid.SampledFrom([]repo.Transition{
		repo.TransitionComplete, repo.TransitionFail, repo.TransitionFail, repo.TransitionSnooze, repo.TransitionCancel,
	}).Draw(t, "transition")
	cause := repo.Cause{Reason: "why " + string(transition), Fence: j.lease.Fence}
	switch transition {
	case repo.TransitionCancel:
		cause.Fence = 0
		j.State, j.CancelReason = repo.PlanCancelled, cause.Reason
	case repo.TransitionComplete:
		j.State = repo.PlanApplied // of its last phase
	case repo.TransitionFail:
		cause.Delay, cause.Final = time.Microsecond, rapid.IntRange(0, 3).Draw(t, "final") == 0
		if j.State = repo.PlanQueued; cause.Final || j.Attempt >= j.MaxAttempts {
			j.State, j.ErrorMessage = repo.PlanErrored, cause.Reason
		} else {
			j.Attempt++
		}
	default:
		j.State = repo.PlanQueued
		if cause.Delay = time.Microsecond; rapid.IntRange(0, 3).Draw(t, "for long") == 0 {
			cause.Delay = time.Hour
		}
	}
	j.Version++
	j.spent, j.lost = append(j.spent, j.lease), false
	got, err := m.store.Plans().Transition(t.Context(), j.ID, transition, cause)
	if err != nil {
		t.Fatalf("%s: %v", transition, err)
	}
	m.wantJob(t, got, j)
	j.Plan = got
	j.Moved = false
}

// late writes under the token of an earlier claim, which is refused whatever has become of the plan.
func (m *jobs) late(t *rapid.T) {
	j := m.pick(t, "plan", func(j *job) bool { return len(j.spent) > 0 && j.spent[len(j.spent)-1].Fence != j.lease.Fence })
	old := rapid.SampledFrom(j.spent).Draw(t, "lease")
	if old.Fence == j.lease.Fence {
		t.Skip("it is the latest")
	}
	step := int64(1)
	_, err := m.store.Plans().Transition(t.Context(), j.ID, repo.TransitionComplete, repo.Cause{Fence: old.Fence})
	_, progress := m.store.Plans().Progress(t.Context(), j.ID, repo.Progress{CompletedStep: &step, Fence: old.Fence})
	_, moved := errors.AsType[*repo.FencedError](err)
	if _, done := errors.AsType[*repo.FencedError](progress); !moved || !done {
		t.Fatalf("writes after the loss of the plan %+v: %v, %v", j.Plan, err, progress)
	}
}

func (m *jobs) lose(t *rapid.T) {
	j := m.pick(t, "plan", func(j *job) bool { return j.State == repo.PlanProcessing && !j.lost })
	if err := m.store.Leases().Release(t.Context(), j.lease); err != nil {
		t.Fatal(err)
	}
	j.lost = true
}

func (m *jobs) resume(t *rapid.T) {
	j := m.pick(t, "plan", func(j *job) bool { return j.State == repo.PlanErrored })
	got, err := m.store.Plans().Transition(t.Context(), j.ID, repo.TransitionResume, repo.Cause{})
	if err != nil {
		t.Fatal(err)
	}
	j.State, j.Version, j.ErrorMessage = repo.PlanQueued, j.Version+1, ""
	m.wantJob(t, got, j)
	j.Plan = got
	j.Moved = false
}

func (m *jobs) wantJob(t *rapid.T, got repo.Plan, want *job) {
	if got.ID != want.ID || got.Stage != want.Stage || got.Version != want.Version || got.Attempt != want.Attempt ||
		got.ErrorMessage != want.ErrorMessage || got.CancelReason != want.CancelReason {
		t.Fatalf("the plan is %+v, want %+v", got, want.Plan)
	}
}

// check compares a plan, the numbers of a namespace and its limits with what is expected.
func (m *jobs) check(t *rapid.T) {
	if len(m.all) == 0 {
		return
	}
	j := m.pick(t, "plan", func(*job) bool { return true })
	stored, err := m.store.Plans().Get(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	m.wantJob(t, stored, j)
	want := map[repo.Stage]int{}
	for _, other := range m.all {
		if other.Namespace == j.Namespace {
			want[other.Stage]++
		}
	}
	counts, err := m.store.Plans().Counts(t.Context(), j.Namespace, repo.Page{})
	if err != nil || len(counts.Items) != len(want) {
		t.Fatalf("the counts are %+v, %v, want %v", counts.Items, err, want)
	}
	for _, c := range counts.Items {
		if c.Count != want[c.Stage] {
			t.Fatalf("%d plans are at %v, want %d", c.Count, c.Stage, want[c.Stage])
		}
	}
	limits, err := m.store.Plans().Limits(t.Context(), repo.Page{Limit: repo.MaxPageSize})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limits.Items {
		key := repo.PlanLimit{Namespace: l.Namespace, Action: l.Action}
		if atOnce, known := m.limits[key]; known && (l.AtOnce != atOnce || l.Claimed != m.claimed(key)) {
			t.Fatalf("the limit is %+v, want %d, of which %d are claimed", l, atOnce, m.claimed(key))
		}
	}
}

// Plans under limits are claimed, retried, put off, cancelled and lost in any order: each store does with them
// what the model expects.
// Guarantee: Claims: Limits, attempts and tokens hold in whatever order plans are claimed, retried, cancelled and lost.
func TestModelOfClaims(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]repo.Store{"memory": memory.New(), "postgres": pgtest.NewStore(t, agentstore.Options{})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fewerChecks()
			end := await.End(t)
			rapid.Check(t, func(t *rapid.T) {
				m := newJobs(t, store, end)
				t.Repeat(map[string]func(*rapid.T){
					"use": m.use, "use again": m.use, "limit": m.limit, "claim": m.claim, "claim again": m.claim, "move": m.move, "move on": m.move,
					"late": m.late, "lose": m.lose, "resume": m.resume, "": m.check,
				})
			})
		})
	}
}
