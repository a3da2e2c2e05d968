package scheduler

import "time"

// load finds how many groups should be under way at once, by trying.
//
// No fixed number is right. More groups at once use more cores and overlap one's
// commit with another's work, but each is smaller, and a group costs the more by
// itself the smaller it is. Measured on two cores, against one row at a time: of 4
// writers one group at a time makes 0.62 and wants more of them; 16 make 1.0 to
// 1.3 with one and 0.6 to 0.9 with two; 256 make 2.9 with one and 3.5 with two; and
// where items are large, and the work is the database's per byte, each core wants
// a group. What is right depends on the machine, the disk and the items as well.
//
// So the number is held for a time, and then one beside it is tried, in turn with
// it, in windows short enough that both see the same load. Whichever carried out
// more items is kept. Trying is an eighth of the time, and one step away from what
// was best, so that it costs little.
type load struct {
	most   int // groups at once that there may be
	best   int
	beside int // the number that is tried
	up     bool

	window  int // of a round of windows
	begin   time.Time
	items   int     // carried out in this window
	refused bool    // a group had to wait in this round
	rates   [2]rate // of best and of beside, in this round
}

type rate struct {
	items int
	took  time.Duration
}

const (
	windowLength = 10 * time.Millisecond
	// Windows of a round: best and beside in turn, then best alone.
	windowsTrying = 4
	windowsRound  = 16
	// gain is how much better beside must be, so that chance does not decide.
	gain = 1.03
)

func newLoad(most int) load {
	l := load{most: most, best: min(2, most), up: true, begin: time.Now()}
	l.beside = l.neighbour()
	return l
}

// groups is how many groups may be under way now.
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

// carried counts what a group carried out. A window ends with the first group
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
		// A higher number than is ever asked for changes nothing.
		if l.up && !l.refused {
			l.up = false
		}
		l.window, l.refused, l.rates = 0, false, [2]rate{}
		l.beside = l.neighbour()
	}
}

// choose keeps the better number, and its direction; else it turns round.
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
