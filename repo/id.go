package repo

import (
	"crypto/rand"
	"errors"
	"sync"

	"github.com/oklog/ulid/v2"
)

// ID identifies an entity. It is a ULID: 16 bytes that sort by creation.
type ID = ulid.ULID

// generator makes ascending IDs.
var generator = struct {
	sync.Mutex
	milliseconds uint64
	entropy      *ulid.MonotonicEntropy
}{entropy: ulid.Monotonic(rand.Reader, 0)}

// NewID returns an ID larger than every one that this process made before.
func NewID() ID {
	generator.Lock()
	defer generator.Unlock()
	// Unlike in ulid.Make, the clock is read under the lock: otherwise a goroutine that is late with an earlier
	// millisecond could make a smaller ID.
	generator.milliseconds = max(generator.milliseconds, ulid.Now())
	for {
		id, err := ulid.New(generator.milliseconds, generator.entropy)
		if errors.Is(err, ulid.ErrMonotonicOverflow) {
			generator.milliseconds++
			continue
		}
		if err != nil { // a clock past the year 10889: crypto/rand does not fail
			panic("repo: no new ID: " + err.Error())
		}
		return id
	}
}

// ParseID parses the 26 characters of an ID's text form, or InvalidError.
func ParseID(s string) (ID, error) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return ID{}, invalid("id", "is not a ULID: 26 characters of Crockford base32")
	}
	return id, nil
}
