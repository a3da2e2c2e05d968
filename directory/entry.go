package directory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/repo"
)

// Edit says what to change of an entry. A nil field is not changed.
type Edit struct {
	Title *string // UTF-8 without NUL, of at most MaxTitleBytes
	// Starred: an owner has MaxStarred of them at most. Above that a change is a LimitExceededError.
	Starred, Archived *bool
	// AddTags and RemoveTags are of 1 to MaxTagBytes bytes each. An entry has MaxTags at most.
	AddTags, RemoveTags []string
}

// apply returns the entry after the edit. Errors: InvalidError.
func (e Edit) apply(old Entry) (Entry, error) {
	entry := old
	if e.Title != nil {
		entry.Title = *e.Title
	}
	if e.Starred != nil {
		entry.Starred = *e.Starred
	}
	if e.Archived != nil {
		entry.Archived = *e.Archived
	}
	entry.Tags = slices.DeleteFunc(slices.Concat(old.Tags, e.AddTags), func(tag string) bool {
		return slices.Contains(e.RemoveTags, tag)
	})
	slices.Sort(entry.Tags)
	if entry.Tags = slices.Compact(entry.Tags); len(entry.Tags) == 0 {
		entry.Tags = nil
	}
	switch {
	case len(entry.Title) > MaxTitleBytes || !isText(entry.Title):
		return entry, &repo.InvalidError{Field: "title", Reason: "is too long, or not UTF-8 without NUL"}
	case len(entry.Tags) > MaxTags:
		return entry, &repo.InvalidError{Field: "addTags", Reason: fmt.Sprintf("make more than %d tags", MaxTags)}
	}
	return entry, cmp.Or(checkTags("addTags", e.AddTags), checkTags("removeTags", e.RemoveTags))
}

func checkTags(field string, tags []string) error {
	for _, tag := range tags {
		if tag == "" || len(tag) > MaxTagBytes || !isText(tag) {
			return &repo.InvalidError{Field: field, Reason: "has a tag that is empty, too long, or not UTF-8 without NUL"}
		}
	}
	return nil
}

func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// wordsOf returns the distinct words of a text, in lower case: runs of letters, marks and digits. Some letters have two
// lower cases, as the Greek sigma, and one upper case.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(strings.ToUpper(text)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	slices.Sort(words)
	return slices.Compact(words)
}

// The first parts of the keys of an owner's scope: of the indexes, whose last part is a session's id, and of counters.
const (
	indexAll, indexStarred, indexArchived, indexTag, indexWord = "c", "s", "a", "t", "w"
	counters                                                   = "n"
)

// index returns the keys with which an owner's scope finds a conversation, each with the key of its counter; empty:
// it has none.
func (e Entry) index(id repo.ID) map[string]string {
	keys := map[string]string{}
	add := func(parts ...string) {
		keys[repo.JoinKey(append(parts, id.String())...)] = repo.JoinKey(append([]string{counters}, parts...)...)
	}
	add(indexAll)
	if e.Starred {
		add(indexStarred)
	}
	if e.Archived {
		add(indexArchived)
	}
	for _, tag := range e.Tags {
		add(indexTag, tag)
	}
	for _, word := range wordsOf(e.Title) {
		keys[repo.JoinKey(indexWord, word, id.String())] = ""
	}
	return keys
}

// changes returns what makes one entry of another, with its index and counters. gone: there is none afterwards.
func (d *Directory) changes(id repo.ID, old stored, entry Entry, gone bool) []repo.StateChange {
	was, is := map[string]string{}, map[string]string{}
	own, owners := repo.Scope{Name: d.scopeOf(id)}, repo.Scope{Name: d.scope}
	change := repo.StateChange{Scope: own, Key: keyEntry, Op: repo.StateRemove, IfVersion: &old.version}
	if old.version > 0 {
		was = old.index(id)
	}
	if !gone {
		is, change.Op = entry.index(id), repo.StateSet
		change.Value, _ = json.Marshal(entry) //nolint:errchkjson // texts and flags are always JSON
	}
	changes, counts := []repo.StateChange{change}, map[string]int64{}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, stays := is[key]; !stays {
			changes = append(changes, repo.StateChange{Scope: owners, Key: key, Op: repo.StateRemove})
			counts[was[key]]--
		}
	}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[key]; !there {
			changes = append(changes, repo.StateChange{Scope: owners, Key: key, Value: json.RawMessage("true")})
			counts[is[key]]++
		}
	}
	delete(counts, "")
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		count := repo.StateChange{Scope: owners, Key: key, Op: repo.StateIncrement, By: counts[key]}
		if key == repo.JoinKey(counters, indexStarred) {
			count.AtMost = new(int64(MaxStarred))
		}
		changes = append(changes, count)
	}
	return changes
}
