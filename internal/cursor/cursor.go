// Package cursor encodes the place at which a page of a list ends.
package cursor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A cursor begins with the version of its layout and 8 bytes of the filter's hash. The
// place follows.
const (
	placeVersion = 1 // 8 bytes of the time, 16 of the id, and one more if coarse
	nameVersion  = 2 // a name
	header       = 1 + 8
)

// maxName bounds the names that cursors hold, in bytes.
const maxName = 1024

// Place is the last entry of a page: lists are ordered by time, then id.
type Place struct {
	CreatedAt time.Time
	ID        repo.ID
	// Coarse: the list is not in the order of the exact time where the page ended.
	Coarse bool
}

var (
	errMalformed = errors.New("is not a cursor that a page returned")
	errFilter    = errors.New("belongs to a list with another filter")
)

// Encode returns the cursor of a place in a list. filter has the list's name, and all
// values of its filter.
func Encode(place Place, filter ...string) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(place.CreatedAt.UnixMicro()))
	raw = append(raw, place.ID[:]...)
	if place.Coarse {
		raw = append(raw, 1)
	}
	return encode(placeVersion, string(raw), filter)
}

// Decode reads a cursor back and checks that it belongs to the same list. Its
// errors are phrases that complete "the cursor …".
func Decode(text string, filter ...string) (Place, error) {
	raw, err := decode(placeVersion, text, filter)
	if err != nil {
		return Place{}, err
	}
	const size = 8 + len(repo.ID{})
	if len(raw) != size && (len(raw) != size+1 || raw[size] != 1) {
		return Place{}, errMalformed
	}
	place := Place{
		CreatedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC(), ID: repo.ID(raw[8:size]), Coarse: len(raw) > size,
	}
	if year := place.CreatedAt.Year(); year < 1 || year > 9999 {
		return Place{}, errMalformed
	}
	return place, nil
}

// EncodeName returns the cursor of a place in a list that is ordered by a name, or
// another unique text of at most 1,024 bytes.
func EncodeName(name string, filter ...string) string { return encode(nameVersion, name, filter) }

// DecodeName is like Decode, for the cursors of EncodeName.
func DecodeName(text string, filter ...string) (string, error) {
	name, err := decode(nameVersion, text, filter)
	return string(name), err
}

// EncodeID returns the cursor of a place in a list that is ordered by id.
func EncodeID(id repo.ID, filter ...string) string { return EncodeName(string(id[:]), filter...) }

// DecodeID is like Decode, for the cursors of EncodeID.
func DecodeID(text string, filter ...string) (repo.ID, error) {
	raw, err := decode(nameVersion, text, filter)
	if err != nil {
		return repo.ID{}, err
	}
	if len(raw) != len(repo.ID{}) {
		return repo.ID{}, errMalformed
	}
	return repo.ID(raw), nil
}

func encode(version byte, place string, filter []string) string {
	raw := append(append([]byte{version}, hash(filter)...), place...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decode(version byte, text string, filter []string) ([]byte, error) {
	// The base64 decoder ignores line breaks.
	if len(text) > base64.RawURLEncoding.EncodedLen(header+maxName) || strings.ContainsAny(text, "\r\n") {
		return nil, errMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= header || raw[0] != version {
		return nil, errMalformed
	}
	if string(raw[1:header]) != string(hash(filter)) {
		return nil, errFilter
	}
	return raw[header:], nil
}

// hash returns a hash of the filter's values. Each value is preceded by its length, so
// that different lists of values have different inputs.
func hash(filter []string) []byte {
	h := sha256.New()
	for _, value := range filter {
		_ = binary.Write(h, binary.BigEndian, uint64(len(value)))
		h.Write([]byte(value))
	}
	return h.Sum(nil)[:8]
}
