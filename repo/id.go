package repo

import (
	"bytes"

	"github.com/google/uuid"
)

// ID identifies an entity. It is a UUID of version 7 (RFC 9562, section 5.7): 16 bytes that sort by creation. Its text
// is the same in logs, URLs, exports, psql and dumps.
type ID uuid.UUID

// NewID returns an ID larger than every earlier one of this process.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) } // crypto/rand does not fail

// ParseID parses the 36 characters of an ID's text form, in lower or upper case, or InvalidError.
func ParseID(s string) (ID, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != len(id.String()) { // the library takes other forms, too
		return ID{}, invalid("id", "is not a UUID, such as 0190c1a2-7b3c-7def-8123-456789abcdef")
	}
	return ID(id), nil
}

// String returns the text form, in lower case.
func (id ID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether it is the zero value, which identifies nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare compares ids by their bytes, as the database and their texts do.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// MarshalText returns the text form.
func (id ID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText is like ParseID.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}
