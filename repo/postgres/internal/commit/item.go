package commit

import (
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Item is a write: a pointer to what embeds Progress.
type Item interface {
	Size() scheduler.Size
	// Doubt notes that an attempt may have been committed.
	Doubt()
	progress() *Progress
}

// Progress is how far a write has got. Its caller uses it before and after Submit, and one group
// at a time in between.
type Progress struct {
	// Unsure: an attempt may have been committed.
	Unsure bool

	// skipped is when a group first found a row of it locked.
	skipped time.Time
	err     error
	// seen is what an observer is told. Nil: there is none.
	seen *seen
	// at is its state, by which group and caller agree whether it is sent.
	at atomic.Int32
}

const (
	queued  = iota
	taken   // by a group, which sends it
	givenUp // by its caller: no group sends it
)

// Doubt implements Item.
func (p *Progress) Doubt() { p.Unsure = true }

func (p *Progress) progress() *Progress { return p }

// Skipped returns when a group first found a row of it locked. The zero value: none has.
func (p *Progress) Skipped() time.Time { return p.skipped }

// Skip notes that a row is locked, if that is news.
func (p *Progress) Skip() {
	if p.skipped.IsZero() {
		p.skipped = time.Now()
	}
}

// take reports whether a group may send it.
func (p *Progress) take() bool { return p.at.CompareAndSwap(queued, taken) || p.isTaken() }

func (p *Progress) isTaken() bool { return p.at.Load() == taken }

// giveUp reports whether no group has sent it, and none will.
func (p *Progress) giveUp() bool {
	return p.at.CompareAndSwap(queued, givenUp) || p.at.Load() == givenUp
}
