package audit

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Options configure a Writer. The zero value is the default.
type Options struct {
	// QueueEntries and QueueBytes bound the entries that wait to be written. While
	// the queue is full callers wait. Zero: 10,000 entries and 64 MiB.
	QueueEntries, QueueBytes int
	// BatchEntries bounds what is written in one transaction, at most
	// repo.MaxBatchMessages. Zero: 2,000.
	BatchEntries int
	// WriteTimeout bounds one attempt to write a batch, after which it is retried.
	// Zero: 30 s.
	WriteTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause between attempts, which
	// doubles and is jittered. Zero: 50 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Redactor removes secrets from entries. Nil: NewRedactor's, without
	// options.
	Redactor *Redactor
	// Spool stores entries while the database is unavailable. Nil: they wait in
	// the queue. The writer closes it.
	Spool *Spool
	// OnQuarantine is called with each entry that the database refuses because of
	// its values. It runs in the writer's goroutine, and the entry is redacted.
	OnQuarantine func(entry repo.AuditEntry, reason error)
	// Logger logs what the writer does by itself: retries, quarantined entries,
	// gaps. It is never given an entry's details. Nil: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultQueueEntries = 10_000
	defaultQueueBytes   = 64 << 20
	defaultBatchEntries = 2000
	defaultWriteTimeout = 30 * time.Second
	defaultMinBackoff   = 50 * time.Millisecond
	defaultMaxBackoff   = 30 * time.Second
)

// setting checks an option, and puts its default in where it has no value. A most of
// zero is none.
func setting[V int | time.Duration](field string, value *V, initial, most V) error {
	switch {
	case most == 0 && *value < 0:
		return &repo.InvalidError{Field: "options." + field, Reason: "is negative"}
	case most > 0 && (*value < 0 || *value > most):
		return &repo.InvalidError{Field: "options." + field, Reason: "is negative or too large"}
	case *value == 0:
		*value = initial
	}
	return nil
}

// normalize checks the options and puts the defaults in.
func (o Options) normalize() (Options, error) {
	err := cmp.Or(
		setting("QueueEntries", &o.QueueEntries, defaultQueueEntries, 10_000_000),
		setting("QueueBytes", &o.QueueBytes, defaultQueueBytes, 16<<30),
		setting("BatchEntries", &o.BatchEntries, defaultBatchEntries, repo.MaxBatchMessages),
		setting("WriteTimeout", &o.WriteTimeout, defaultWriteTimeout, 0),
		setting("MinBackoff", &o.MinBackoff, defaultMinBackoff, 0),
		setting("MaxBackoff", &o.MaxBackoff, max(defaultMaxBackoff, o.MinBackoff), 0),
	)
	if err != nil {
		return o, err
	}
	if o.MinBackoff > o.MaxBackoff {
		return o, &repo.InvalidError{Field: "options.MinBackoff", Reason: "is above MaxBackoff"}
	}
	if o.Redactor == nil {
		o.Redactor = NewRedactor(RedactorOptions{})
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}
