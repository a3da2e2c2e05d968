// Package cursor encodes the place at which a page of a list ends.
package cursor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
)

// A cursor begins with 8 bytes of the filter's hash. The place follows, as JSON.
const header = 8

// maxText bounds cursors. The longest place is a hold: its namespace and its owner have 1,279 bytes, each of which JSON
// may escape with six.
const maxText = 16 << 10

var (
	errMalformed = errors.New("is not a cursor that a page returned")
	errFilter    = errors.New("belongs to a list with another filter")
)

// Encode returns the cursor of a place in a list. filter has the list's name, and all
// values of its filter.
func Encode[Place any](place Place, filter ...string) string {
	raw, _ := json.Marshal(place) //nolint:errchkjson // ids, texts, and times that are stored
	return base64.RawURLEncoding.EncodeToString(append(hash(filter), raw...))
}

// Decode reads a cursor back and checks that it belongs to the same list. It accepts only
// what Encode returns: there is one text for each place. Its errors are phrases that
// complete "the cursor …".
func Decode[Place any](text string, filter ...string) (place Place, err error) {
	if len(text) > maxText {
		return place, errMalformed
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) <= header {
		return place, errMalformed
	}
	if string(raw[:header]) != string(hash(filter)) {
		return place, errFilter
	}
	if err := json.Unmarshal(raw[header:], &place); err != nil || Encode(place, filter...) != text {
		return *new(Place), errMalformed
	}
	return place, nil
}

// hash returns a hash of the filter's values. Each value is preceded by its length, so
// that different lists of values have different inputs.
func hash(filter []string) []byte {
	h := sha256.New()
	for _, value := range filter {
		_ = binary.Write(h, binary.BigEndian, uint64(len(value)))
		h.Write([]byte(value))
	}
	return h.Sum(nil)[:header]
}
