package files

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Bounds of what is saved, and their defaults.
const (
	MaxMetadata     = 64 << 10       // bytes of a version's metadata
	DefaultMaxBytes = int64(1 << 30) // of a version
	DefaultGrace    = time.Hour
	MinGrace        = time.Minute
)

// Blobs keeps bytes under keys that are chosen once, and never given twice. It is safe for concurrent use. [NewMemory]
// and [NewFolder] are such, and package files/filespg has one in PostgreSQL; package files/filestest tests another one.
type Blobs interface {
	// Put keeps all that r has, and returns when that survives a crash, or, in the store's own database, when what the
	// store commits later survives none without it. After an error, or without an answer, there may be a part: Delete
	// removes it, too.
	Put(ctx context.Context, key string, r io.Reader) error
	// Get returns the bytes from an offset on, which is not beyond their end. Errors: NotFoundError, perhaps only when
	// they are read.
	Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// Delete removes what is there. That there is nothing is no error.
	Delete(ctx context.Context, key string) error
}

// Options are optional.
type Options struct {
	MaxBytes int64 // of a version; zero: DefaultMaxBytes
	// Grace is for how long bytes stay to which nothing refers any more, at least MinGrace: a reader of them may go on.
	// A save that takes longer than half of it is ended. Zero: DefaultGrace.
	Grace time.Duration
}

// Files are the files of one namespace.
type Files struct {
	store   repo.Store
	blobs   Blobs
	options Options
	prefix  string // of the keys of blobs
	notes   notes
}

// New returns the files of a namespace; empty means repo.DefaultNamespace. A store with views is used through the
// view of the namespace; another store must be that view. Errors: InvalidError.
func New(store repo.Store, namespace string, blobs Blobs, options Options) (*Files, error) {
	namespace = cmp.Or(namespace, repo.DefaultNamespace)
	options.MaxBytes, options.Grace = cmp.Or(options.MaxBytes, DefaultMaxBytes), cmp.Or(options.Grace, DefaultGrace)
	err := cmp.Or(
		invalidIf(store == nil, "store", "is nil"),
		invalidIf(blobs == nil, "blobs", "is nil"),
		invalidIf(len(namespace) > repo.MaxNameBytes, "namespace", "is too long"),
		invalidIf(options.MaxBytes < 0, "options.MaxBytes", "is negative"),
		invalidIf(options.Grace < MinGrace, "options.Grace", "is below a minute"),
	)
	if err != nil {
		return nil, err
	}
	if whole, has := store.(interface {
		In(namespace string) repo.Store
	}); has {
		store = whole.In(namespace)
	}
	prefix := url.PathEscape(namespace) + "/"
	return &Files{store, blobs, options, prefix, notes{turn: make(chan struct{}, 1)}}, nil
}

func invalidIf(is bool, field, reason string) error {
	if !is {
		return nil
	}
	return &repo.InvalidError{Field: field, Reason: reason}
}
