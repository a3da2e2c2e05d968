package document

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// The methods of this file read one value each. Every value has one spelling
// in a document, so that the checksum over the values read is the checksum over
// what was written.

// id reads an ID: upper case, not zero (which would mean "a new one").
func (s *source) id() (repo.ID, *fault) {
	text, f := s.text(64)
	if f != nil {
		return repo.ID{}, f
	}
	id, err := repo.ParseID(string(text))
	switch {
	case err != nil:
		return repo.ID{}, &fault{Reason: "is not a ULID: 26 characters of Crockford base32"}
	case id.String() != string(text):
		return repo.ID{}, &fault{Reason: "is not in upper case"}
	case id.IsZero():
		return repo.ID{}, &fault{Reason: "is zero"}
	}
	return id, nil
}

// time reads a time in the one layout.
func (s *source) time() (time.Time, *fault) {
	text, f := s.text(64)
	if f != nil {
		return time.Time{}, f
	}
	// time.Parse takes more than the layout says: other fractions, for one.
	if len(text) == len(timeLayout) && text[19] == '.' && text[26] == 'Z' {
		if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil && t.Year() >= 1 {
			return t, nil
		}
	}
	return time.Time{}, &fault{Reason: "is not a time written as 2006-01-02T15:04:05.000000Z"}
}

// bytes reads standard base64 with padding.
func (s *source) bytes(limit int) ([]byte, *fault) {
	text, f := s.text(base64.StdEncoding.EncodedLen(limit))
	if f != nil {
		return nil, f
	}
	value := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(value, text)
	// The decoder passes over line breaks.
	if err != nil || base64.StdEncoding.EncodedLen(n) != len(text) {
		return nil, &fault{Reason: "is not standard base64"}
	}
	return value[:n], nil
}

// nameText reads a name. Where there is none, the member is left out.
func (s *source) nameText(limit int) (string, *fault) {
	text, f := s.text(limit)
	if f == nil && len(text) == 0 {
		f = &fault{Reason: "is empty"}
	}
	return string(text), f
}

// refused turns an error of the contract's own checks into a fault. The field
// it names is the last part of its path: "messages[0].content" is content.
func refused(err error) *fault {
	var invalid *repo.InvalidError
	if !errors.As(err, &invalid) {
		return &fault{Reason: "is refused", Err: err}
	}
	field := invalid.Field[strings.LastIndexByte(invalid.Field, '.')+1:]
	cause := &repo.InvalidError{Field: field, Reason: invalid.Reason}
	switch field { // where a member has another name
	case "budget", "cost":
		field += "_nanos"
	}
	return &fault{Field: field, Reason: "breaks a rule", Err: cause}
}
