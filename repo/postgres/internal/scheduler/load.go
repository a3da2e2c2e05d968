package scheduler

import "time"

// load finds by experiment how many groups should be under way at once.
//
// No fixed number is right. More groups at once use more cores, and overlap one's
// commit with another's work. But each is smaller, and every group has a fixed cost.
// Measured on two cores, relative to one row at a time: 4 writers reach 0.62 with one
// group at a time, and need more; 16 reach 1.0 to 1.3 with one group and 0.6 to 0.9
// with two; 256 reach 2.9 with one and 3.5 with two. If items are large, the database's
// work is per byte, and there should be a group for each core. The best number also
// depends on the machine and the disk.
//
// So load keeps a number for some time, and then alternates it with a neighbour, in
// windows so short that both see the same load. It keeps the one that processed more
// items. Trials cost little: they take an eighth of the time, and are one step away
// from the best number.
type load struct {
	most   int // the bound of the groups at once
	best   int
	beside int // the neighbour of best that is tried
	up     bool

	window  int // its number in this round
	begin   time.Time
	items   int     // processed in this window
	refused bool    // a group had to wait in this round
	rates   [2]rate // of best and of beside, in this round
}

type rate struct {
	items int
	took  time.Duration
}

const (
	windowLength = 10 * time.Millisecond
	// The windows of a round: best and beside alternate in the first, then best alone.
	windowsTrying = 4
	windowsRound  = 16
	// gain is how much better beside must be, so that noise does not decide.
	gain = 1.03
)

func newLoad(most int) load {
	l := load{most: most, best: min(2, most), up: true, begin: time.Now()}
	l.beside = l.neighbour()
	return l
}

// groups returns the number of groups that may be under way now.
func (l *load) groups() int {
	if l.trying() {
		return l.beside
	}
	return l.best
}

func (l *load) trying() bool { return l.window < windowsTrying && l.window%2 == 1 }

func (l *load) neighbour() int {
	if l.up {
		return min(l.best+1, l.most)
	}
	return max(l.best-1, 1)
}

// carried counts the items that a group processed. A window ends with the first group
// that ends after its time: without load nothing is measured.
func (l *load) carried(items int) {
	l.items += items
	took := time.Since(l.begin)
	if took < windowLength {
		return
	}
	if l.window < windowsTrying {
		r := &l.rates[l.window%2]
		r.items += l.items
		r.took += took
	}
	l.window++
	l.items, l.begin = 0, time.Now()
	if l.window == windowsTrying {
		l.choose()
	}
	if l.window == windowsRound {
		// No group had to wait: a higher number would change nothing.
		if l.up && !l.refused {
			l.up = false
		}
		l.window, l.refused, l.rates = 0, false, [2]rate{}
		l.beside = l.neighbour()
	}
}

// choose takes beside if it was better, and keeps its direction. Otherwise it changes
// the direction.
func (l *load) choose() {
	best, beside := l.rates[0], l.rates[1]
	if l.beside != l.best && beside.perSecond() > gain*best.perSecond() {
		l.best = l.beside
		return
	}
	l.up = !l.up
}

func (r rate) perSecond() float64 { return float64(r.items) / r.took.Seconds() }

// mayGroup reports whether another group may begin.
func (s *Scheduler[K, I]) mayGroup() bool {
	if s.groups < s.load.groups() {
		return true
	}
	s.load.refused = true
	return false
}
