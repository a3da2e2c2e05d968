package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
)

// progress prints a line per version with its duration, and for a long one, from
// time to time, a line that it is still running. With --json the lines go to
// stderr: stdout contains only the JSON object.
type progress struct {
	every        time.Duration
	lines, notes io.Writer
	// stop ends the lines about the running version, and waits for the last one, so
	// that no two goroutines write at once.
	stop func()
}

func (f *migrateFlags) progress(invocation invocation) *progress {
	p := &progress{every: f.progressEvery, lines: invocation.stdout, notes: invocation.stderr, stop: func() {}}
	if f.json {
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

// start begins the lines about a version.
func (p *progress) start(step schema.Step) {
	if p.every <= 0 {
		return
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	p.stop = func() {
		close(ending)
		<-ended
		p.stop = func() {}
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(p.every)
		defer ticker.Stop()
		for started := time.Now(); ; {
			select {
			case <-ending:
				return
			case <-ticker.C:
				fmt.Fprintf(p.notes, "%-4s  %s  still running after %s\n", step.Direction, step.Name, round(time.Since(started)))
			}
		}
	}()
}

func round(duration time.Duration) time.Duration {
	if duration < time.Second {
		return duration.Round(100 * time.Microsecond)
	}
	return duration.Round(10 * time.Millisecond)
}
