package rules

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// Candidate is a plan that a claim may take: one that is queued and due, or one whose claim has expired, and that has
// an attempt left.
type Candidate struct {
	Plan      repo.ID
	Phase     repo.Phase
	Namespace string
	Action    string
	Priority  int
	// Since is since when it waits, or when its claim ended.
	Since   time.Time
	Expired bool
	Bytes   int // see PlanBytes
}

// rank is the priority among the candidates of a namespace.
func (c Candidate) rank() int {
	if c.Expired {
		return limits.MaxPriority + 1
	}
	return c.Priority
}

// PlanBytes returns how many bytes the texts and documents of a plan have that bound how many plans a claim returns.
func PlanBytes(p repo.Plan) int {
	bytes := len(p.Description) + len(p.DefinitionOfDone) + len(p.AutomationSnapshot)
	for _, a := range p.Arguments {
		bytes += len(a.Name) + len(a.Value)
	}
	for _, i := range p.Invariants {
		bytes += len(i.Text) + len(i.Source)
	}
	for _, l := range p.Projects {
		bytes += len(l.Project) + len(l.Alias)
	}
	return bytes
}

// Rooms have how many more plans limits allow to be claimed, by their namespaces and actions. It is negative where one
// was lowered.
type Rooms map[repo.PlanLimit]int

// limitsOf returns the limits that count a candidate, its action's first.
func (r Rooms) limitsOf(c Candidate) (keys []repo.PlanLimit) {
	for _, action := range []string{c.Action, ""} {
		key := repo.PlanLimit{Namespace: c.Namespace, Action: action}
		if _, limited := r[key]; limited {
			keys = append(keys, key)
		}
	}
	return keys
}

// Allow reports whether a candidate may be claimed. One whose claim has expired is counted already.
func (r Rooms) Allow(c Candidate) bool {
	return !slices.ContainsFunc(r.limitsOf(c), func(key repo.PlanLimit) bool {
		return r[key] < 0 || r[key] == 0 && !c.Expired
	})
}

// Take counts a candidate as claimed.
func (r Rooms) Take(c Candidate) {
	if !c.Expired {
		for _, key := range r.limitsOf(c) {
			r[key]--
		}
	}
}

// Choice is what a claim chooses from, and what it has taken.
type Choice struct {
	Candidates []Candidate
	Turns      []string // the namespaces, in the order in which they are served
	Rooms      Rooms
	Most       int // plans that are asked for
	Taken      []Candidate

	// behind is the first one that did not fit, which comes before all others. full: it still does not.
	behind Candidate
	full   bool
}

// IsFull reports whether the claim has as many plans as it asked for, or as fit into an answer.
func (c *Choice) IsFull() bool { return c.full || len(c.Taken) >= c.Most }

// Pick puts the candidates into the order in which they are taken, and returns how many are: as many as the limits and
// the bound of an answer's bytes allow. Plans with expired claims come first. Then the namespaces take turns, each with
// its plans by priority and by how long they have waited. Plans that limits do not allow are behind the allowed ones.
func (c *Choice) Pick() (order []Candidate, most int) {
	place := map[string]int{}
	for i, namespace := range c.Turns {
		place[namespace] = i
	}
	slices.SortFunc(c.Candidates, func(a, b Candidate) int {
		return cmp.Or(place[a.Namespace]-place[b.Namespace], b.rank()-a.rank(), a.Since.Compare(b.Since),
			a.Plan.Compare(b.Plan))
	})
	queues := make([][]Candidate, len(c.Turns))
	for _, one := range c.Candidates {
		switch {
		case !one.Expired:
			queues[place[one.Namespace]] = append(queues[place[one.Namespace]], one)
		case c.Rooms.Allow(one):
			order = append(order, one)
		}
	}
	turned, over := inTurns(queues, maps.Clone(c.Rooms))
	order = append(order, turned...)
	most = c.fitting(order)
	return append(order, over...), most
}

// inTurns takes one of each queue after the other, as far as the limits allow. It returns what is over, too.
func inTurns(queues [][]Candidate, rooms Rooms) (turned, over []Candidate) {
	for len(queues) > 0 {
		for i, queue := range queues {
			first := slices.IndexFunc(queue, rooms.Allow)
			if first < 0 {
				over, queues[i] = append(over, queue...), nil
				continue
			}
			rooms.Take(queue[first])
			turned = append(turned, queue[first])
			over, queues[i] = append(over, queue[:first]...), queue[first+1:]
		}
		queues = slices.DeleteFunc(queues, func(queue []Candidate) bool { return len(queue) == 0 })
	}
	return turned, over
}

// fitting returns how many of the first candidates the claim still asks for, with fewer bytes than an answer has at
// most, or one.
func (c *Choice) fitting(order []Candidate) (most int) {
	bytes := c.bytes()
	fits := func(one Candidate) bool { return bytes+one.Bytes < limits.MaxReadBytes || len(c.Taken)+most == 0 }
	if c.full = c.isLeft(c.behind) && !fits(c.behind); c.full {
		return 0
	}
	for _, one := range order[:min(len(order), c.Most-len(c.Taken))] {
		if !fits(one) {
			c.behind, c.full = one, most == 0
			break
		}
		bytes += one.Bytes
		most++
	}
	return most
}

func (c *Choice) isLeft(one Candidate) bool {
	return slices.ContainsFunc(c.Candidates, func(other Candidate) bool { return other.Plan == one.Plan })
}

func (c *Choice) bytes() (bytes int) {
	for _, one := range c.Taken {
		bytes += one.Bytes
	}
	return bytes
}

// Try is a list of candidates, of which the first ones that are unlocked are taken, so many.
type Try struct {
	Of   []Candidate
	Most int
}

// Tries returns what is to be locked next, if anything: what Pick takes, each with what may be taken in its place if it
// is locked: what the same limit counts, or none. So no more is locked than is taken. Where others might be too large
// together, there are none.
func (c *Choice) Tries() (tries []Try) {
	order, most := c.Pick()
	if most == 0 {
		return nil
	}
	largest := slices.MaxFunc(order, func(a, b Candidate) int { return a.Bytes - b.Bytes }).Bytes
	if len(c.Taken)+most > 1 && c.bytes()+most*largest >= limits.MaxReadBytes {
		order = order[:most]
	}
	type kind struct {
		expired bool
		limit   repo.PlanLimit
	}
	places := map[kind]int{}
	for i, one := range order {
		of := kind{expired: one.Expired}
		if counted := c.Rooms.limitsOf(one); len(counted) > 0 && !one.Expired {
			of.limit = counted[0]
		}
		place, known := places[of]
		if !known && i >= most {
			continue
		}
		if !known {
			place = len(tries)
			places[of], tries = place, append(tries, Try{})
		}
		tries[place].Of = append(tries[place].Of, one)
		if i < most {
			tries[place].Most++
		}
	}
	return tries
}

// Settle takes the candidates of a try that were locked, which are in its order. The ones before them were locked
// by others, and so were all others, if there are fewer than the try is for.
func (c *Choice) Settle(try Try, locked []repo.ID) {
	tried := try.Of
	if len(locked) == try.Most {
		tried = tried[:1+slices.IndexFunc(tried, func(one Candidate) bool { return one.Plan == locked[try.Most-1] })]
	}
	for _, one := range tried {
		if slices.Contains(locked, one.Plan) {
			c.Taken = append(c.Taken, one)
			c.Rooms.Take(one)
		}
	}
	c.Candidates = slices.DeleteFunc(c.Candidates, func(one Candidate) bool {
		return slices.ContainsFunc(tried, func(other Candidate) bool { return other.Plan == one.Plan })
	})
}
