package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// emptyObject is stored and read where no metadata was given.
const emptyObject = "{}"

// endOfTime is after every time that can be stored.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// Until returns the exclusive upper bound of a normalized filter: if none was
// given, one after every time that can be stored.
func Until(bound time.Time) time.Time {
	if bound.IsZero() {
		return endOfTime
	}
	return bound
}

// CheckSequence checks a sequence that a caller gave for field.
func CheckSequence(field string, sequence int64) error {
	return invalidIf(sequence < 0, field, "is negative")
}

// CheckLimit checks a page's limit, and replaces zero by the default.
func CheckLimit(limit int) (int, error) {
	return cmp.Or(limit, repo.DefaultPageSize), cmp.Or(
		invalidIf(limit < 0, "limit", "is negative"),
		invalidIf(limit > repo.MaxPageSize, "limit", "is %d, more than %d", limit, repo.MaxPageSize),
	)
}

// CheckPage checks the sequence at which a page begins, which is in field, and its
// limit, as CheckLimit does.
func CheckPage(field string, sequence int64, limit int) (int, error) {
	limit, err := CheckLimit(limit)
	return limit, cmp.Or(CheckSequence(field, sequence), err)
}

// CheckCount checks a count's limit, and replaces zero by the default.
func CheckCount(limit int) (int, error) {
	return limitOf(limit, limits.DefaultAuditCount, limits.MaxAuditCount)
}

// limitOf checks a limit, and replaces zero by the default.
func limitOf(limit, standard, most int) (int, error) {
	return cmp.Or(limit, standard), invalidIf(limit < 0 || limit > most, "limit", "is not between 1 and %d", most)
}

// invalid returns a *repo.InvalidError.
func invalid(field, reason string, args ...any) error {
	if len(args) > 0 {
		reason = fmt.Sprintf(reason, args...)
	}
	return &repo.InvalidError{Field: field, Reason: reason}
}

// invalidIf returns an InvalidError if bad is true, and nil otherwise, so that
// cmp.Or can combine several checks.
func invalidIf(bad bool, field, reason string, args ...any) error {
	if !bad {
		return nil
	}
	return invalid(field, reason, args...)
}

// within prefixes the field of err, which is nil or an error of this package's own
// checks, with the path of the value that was checked.
func within(path string, err error) error {
	if fault, ok := errors.AsType[*repo.InvalidError](err); ok {
		fault.Field = path + fault.Field
	}
	return err
}

func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// name is the value of a field that is limited to repo.MaxNameBytes.
type name struct{ field, value string }

func checkNames(names ...name) error {
	for _, n := range names {
		if err := checkText(n.field, n.value, repo.MaxNameBytes); err != nil {
			return err
		}
	}
	return nil
}

// checkOptionalName checks a name that may be nil.
func checkOptionalName(field string, value *string) error {
	return checkNames(name{field, *cmp.Or(value, new(string))})
}

func checkText(field, value string, maxBytes int) error {
	switch {
	case len(value) > maxBytes:
		return invalid(field, "has %d bytes, more than %d", len(value), maxBytes)
	case !utf8.ValidString(value):
		return invalid(field, "is not valid UTF-8")
	case strings.IndexByte(value, 0) >= 0:
		return invalid(field, "holds a NUL character, which PostgreSQL cannot hold")
	}
	return nil
}

// checkEntries checks the number of entries of the list in field.
func checkEntries(field string, entries, most int) error {
	return invalidIf(entries > most, field, "has %d entries, more than %d", entries, most)
}

// checkEach checks the number of entries of the list in field, and then each of them.
func checkEach(field string, entries, most int, check func(field string, i int) error) error {
	err := checkEntries(field, entries, most)
	for i := 0; err == nil && i < entries; i++ {
		err = check(at(field, i), i)
	}
	return err
}

// checkBatch checks the number of entries of a batch.
func checkBatch(field string, entries int) error {
	return cmp.Or(invalidIf(entries == 0, field, "is empty"), checkEntries(field, entries, repo.MaxBatchMessages))
}

// normalizeObject replaces the caller's JSON by a copy, and nil by an empty object.
func normalizeObject(field string, raw *json.RawMessage) error {
	if *raw == nil {
		*raw = json.RawMessage(emptyObject)
		return nil
	}
	if len(*raw) > repo.MaxMetadataBytes {
		return invalid(field, "has %d bytes, more than %d", len(*raw), repo.MaxMetadataBytes)
	}
	if err := jsonvalue.CheckObject(*raw, limits.MaxJSONDepth); err != nil {
		return invalid(field, "%s", err)
	}
	*raw = bytes.Clone(*raw)
	return nil
}

// normalizeTime converts a caller's time to UTC and the database's precision. The
// year must be one that RFC 3339 can express.
func normalizeTime(field string, t *time.Time) error {
	if t.IsZero() {
		*t = time.Time{}
		return nil
	}
	*t = t.UTC().Truncate(time.Microsecond)
	return invalidIf(t.Year() < 1 || t.Year() > 9999, field, "is not between the years 1 and 9999")
}

// difference reports whether the values of a field differ.
type difference struct {
	field   string
	differs bool
}

// conflict returns the error with the first field whose values differ, or nil.
func conflict(exists repo.ExistsError, fields ...difference) error {
	for _, f := range fields {
		if f.differs {
			exists.Field = f.field
			return &exists
		}
	}
	return nil
}

// versionConflict returns the error of what is not at the version that is expected, if one is, or nil.
func versionConflict(expected *int64, conflict repo.VersionConflictError) error {
	if expected == nil || *expected == conflict.Actual {
		return nil
	}
	conflict.Expected = *expected
	return &conflict
}

func samePointer[V comparable](a, b *V) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// ClonePointer returns a pointer to a copy, or nil.
func ClonePointer[V any](p *V) *V {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// orEmpty returns a copy of a list, which is empty rather than nil.
func orEmpty[V any](list []V) []V { return append([]V{}, list...) }
