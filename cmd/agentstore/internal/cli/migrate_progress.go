package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
)

// progress prints a line per version with its time, and for a long one a line
// now and then that it is still running. With --json the lines go to stderr:
// stdout is the JSON object's alone.
type progress struct {
	every time.Duration
	lines io.Writer
	notes io.Writer

	ending  chan struct{} // closed at the end of the version that is running
	tickers sync.WaitGroup
}

func newProgress(invocation invocation, flags migrateFlags) *progress {
	p := &progress{every: flags.progressEvery, lines: invocation.stdout, notes: invocation.stderr}
	if flags.json {
		p.lines = invocation.stderr
	}
	return p
}

func (p *progress) event(event schema.Event) {
	step := event.Step
	switch event.Kind {
	case schema.EventWaiting:
		fmt.Fprintln(p.notes, "another process is migrating this database: waiting for it")
	case schema.EventStarted:
		p.start(step)
	case schema.EventFinished:
		p.stop()
		done := "applied"
		if step.Direction == schema.DirectionDown {
			done = "reverted"
		}
		fmt.Fprintf(p.lines, "%-4s  %s  %s in %s\n", step.Direction, step.Name, done, round(step.Duration))
	case schema.EventYielded:
		p.stop()
		fmt.Fprintf(p.notes, "%-4s  %s  released its locks, because others use its tables: it will be tried again\n", step.Direction, step.Name)
		p.start(step)
	case schema.EventFailed:
		p.stop()
		fmt.Fprintf(p.lines, "%-4s  %s  failed after %s, rolled back\n", step.Direction, step.Name, round(step.Duration))
	}
}

// start begins the notes about one version; stop ends them and waits until the
// last is written, so that no two goroutines write at once.
func (p *progress) start(step schema.Step) {
	if p.every <= 0 {
		return
	}
	ending := make(chan struct{})
	p.ending = ending
	started := time.Now()
	p.tickers.Go(func() {
		ticker := time.NewTicker(p.every)
		defer ticker.Stop()
		for {
			select {
			case <-ending:
				return
			case <-ticker.C:
				fmt.Fprintf(p.notes, "%-4s  %s  still running after %s\n", step.Direction, step.Name, round(time.Since(started)))
			}
		}
	})
}

func (p *progress) stop() {
	if p.ending != nil {
		close(p.ending)
		p.ending = nil
	}
	p.tickers.Wait()
}

func round(duration time.Duration) time.Duration {
	if duration < time.Second {
		return duration.Round(100 * time.Microsecond)
	}
	return duration.Round(10 * time.Millisecond)
}
