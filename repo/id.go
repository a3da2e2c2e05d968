package repo

import "github.com/oklog/ulid/v2"

// ID identifies a session, a message or any other entity. It is a ULID: 16
// bytes that sort by their time of creation, stored as a uuid.
//
// See https://github.com/ulid/spec.
type ID = ulid.ULID

// NewID returns a new ID that is larger than every one this process made
// before within the same millisecond. It is safe for concurrent use.
func NewID() ID { return ulid.Make() }

// ParseID parses the 26 characters of an ID's text form, upper or lower case.
// Anything else is an [*InvalidError] of the field "id".
func ParseID(s string) (ID, error) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return ID{}, invalid("id", "is not a ULID: 26 characters of Crockford base32")
	}
	return id, nil
}
