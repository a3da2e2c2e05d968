// Package cursor encodes the place where a page of a list ended.
package cursor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// version is the first byte of a cursor; another one means another layout.
const version = 1

// size: the version, 8 bytes of the filter's hash, 8 of the time, 16 of the id.
const size = 1 + 8 + 8 + 16

// Place is the last entry of a page: lists are ordered by time, then id.
type Place struct {
	CreatedAt time.Time
	ID        ulid.ULID
}

var (
	errMalformed = errors.New("is not a cursor that a page returned")
	errFilter    = errors.New("belongs to a list with another filter")
)

// Encode makes the cursor of a place in the list that filter describes. filter
// holds the list's name and all of its filter's values.
func Encode(place Place, filter ...string) string {
	raw := make([]byte, 0, size)
	raw = append(raw, version)
	raw = append(raw, hash(filter)...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(place.CreatedAt.UnixMicro()))
	raw = append(raw, place.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Decode reads a cursor back and checks that it belongs to the same list. Its
// errors are phrases that complete "the cursor …".
func Decode(text string, filter ...string) (Place, error) {
	// The length first: the decoder passes over line breaks.
	if len(text) != base64.RawURLEncoding.EncodedLen(size) {
		return Place{}, errMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != size || raw[0] != version {
		return Place{}, errMalformed
	}
	if string(raw[1:9]) != string(hash(filter)) {
		return Place{}, errFilter
	}
	place := Place{CreatedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(raw[9:17]))).UTC()}
	if year := place.CreatedAt.Year(); year < 1 || year > 9999 {
		return Place{}, errMalformed
	}
	copy(place.ID[:], raw[17:])
	return place, nil
}

// hash tells filters apart. Each value carries its length, so that no two lists
// of values run together into one.
func hash(filter []string) []byte {
	h := sha256.New()
	for _, value := range filter {
		_ = binary.Write(h, binary.BigEndian, uint64(len(value)))
		h.Write([]byte(value))
	}
	return h.Sum(nil)[:8]
}

// nameVersion is the first byte of a cursor that holds a name.
const nameVersion = 2

// maxName bounds the names that cursors hold, in bytes.
const maxName = 1024

// EncodeName makes the cursor of a place in a list that is ordered by a name or
// another unique text of at most 1,024 bytes.
func EncodeName(name string, filter ...string) string {
	raw := make([]byte, 0, 9+len(name))
	raw = append(raw, nameVersion)
	raw = append(raw, hash(filter)...)
	raw = append(raw, name...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// DecodeName reads such a cursor back, as Decode does.
func DecodeName(text string, filter ...string) (string, error) {
	if len(text) > base64.RawURLEncoding.EncodedLen(9+maxName) || strings.ContainsAny(text, "\r\n") {
		return "", errMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 10 || raw[0] != nameVersion {
		return "", errMalformed
	}
	if string(raw[1:9]) != string(hash(filter)) {
		return "", errFilter
	}
	return string(raw[9:]), nil
}
