package rules

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeRead checks what is to be read, and returns it with Since as messages are
// stored.
func NormalizeRead(r repo.ReadSessions) (repo.ReadSessions, error) {
	err := cmp.Or(
		checkEntries("ids", len(r.IDs), repo.MaxPageSize),
		checkEntries("scopes", len(r.Scopes), limits.MaxStateScopes),
		invalidIf(r.First < 0, "first", "is negative"),
		invalidIf(r.Last < 0, "last", "is negative"),
		invalidIf(r.First > 0 && r.Last > 0, "last", "is set together with first"),
		invalidIf(r.Tokens < 0, "tokens", "is negative"),
		invalidIf(r.Tokens > 0 && r.Last == 0, "tokens", "is set, but last is not"),
		invalidIf(r.Tokens > 0 && (r.From > 0 || !r.Since.IsZero() || r.Branches), "tokens",
			"is set together with from, since or branches"),
		CheckSequence("from", r.From),
		normalizeTime("since", &r.Since),
	)
	if err != nil {
		return r, err
	}
	for i, name := range r.Scopes {
		if err := checkScopeName(at("scopes", i), name); err != nil {
			return r, err
		}
	}
	count, field := r.First, "first"
	if r.Last > 0 {
		count, field = r.Last, "last"
	}
	return r, cmp.Or(
		invalidIf(count == 0 && r.From > 0, "from", "is set, but neither first nor last is"),
		invalidIf(count == 0 && !r.Since.IsZero(), "since", "is set, but neither first nor last is"),
		invalidIf(count > limits.MaxReadMessages/max(1, len(r.IDs)), field,
			"for %d sessions is more than %d messages", len(r.IDs), limits.MaxReadMessages),
	)
}

// MaxInstructions bounds the messages of the roles system and developer that a read with ReadSessions.Tokens returns
// besides others.
const MaxInstructions = 2000

// Prompt returns the messages of a transcript that read.Tokens selects, and whether there are others before them.
func Prompt(transcript []*repo.Message, read repo.ReadSessions) (selected []*repo.Message, cut bool) {
	isInstruction := func(m *repo.Message) bool {
		return m.Role == repo.RoleSystem || m.Role == repo.RoleDeveloper || m.Kind == repo.KindSummary
	}
	covered, summary := int64(-1), int64(-1)
	for _, m := range transcript {
		if m.Kind == repo.KindSummary {
			if to, is := Covered(m); is {
				covered, summary = to, m.Sequence
			}
		}
	}
	begin, tokens, count, instructions := len(transcript), read.Tokens, read.Last, 1000
	for ; begin > 0 && transcript[begin-1].Sequence > covered; begin-- {
		if m := transcript[begin-1]; isInstruction(m) {
			instructions--
		} else {
			tokens, count = tokens-TokensOf(m), count-1
		}
		if cut = tokens < 0 || count < 0 || instructions < 0; cut {
			break
		}
	}
	selected = slices.Clone(transcript[begin:])
	number := 0
	for i, m := range slices.Backward(transcript) {
		if !isInstruction(m) || m.Kind == repo.KindSummary && m.Sequence != summary {
			continue
		}
		if number++; i < begin && number <= 1000 {
			selected = append(selected, m)
		}
	}
	slices.SortFunc(selected, func(a, b *repo.Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return selected, cut
}

// TokensOf returns how many tokens a message is taken to have.
func TokensOf(m *repo.Message) int64 {
	if m.Tokens > 0 {
		return m.Tokens
	}
	return (int64(len(m.Content)+len(m.Metadata)+len(m.Payload))*2+6)/7 + 4
}

// Covered returns the last sequence that a summary covers, if it says that: {"summary":{"to":7}}, with exactly these
// names, and a number of at most 18 digits.
func Covered(m *repo.Message) (to int64, is bool) {
	var metadata, says map[string]json.RawMessage // a struct would take other spellings of names
	if json.Unmarshal(m.Metadata, &metadata) != nil || json.Unmarshal(metadata["summary"], &says) != nil ||
		len(says["to"]) > 18 {
		return 0, false
	}
	unsigned, err := strconv.ParseUint(string(says["to"]), 10, 63)
	return int64(unsigned), err == nil && int64(unsigned) < m.Sequence
}

// CutRead returns how many messages of one session belong to a snapshot which has bytes of messages already, and how
// many bytes it has with them. They are all messages before the one at which there are limits.MaxReadBytes, and that
// one; if the last messages are to be read, they are counted from the last one on. sizeOf returns the bytes of the
// message at a place.
func CutRead(read repo.ReadSessions, count, bytes int, sizeOf func(i int) int) (taken, total int) {
	for ; taken < count && bytes < limits.MaxReadBytes; taken++ {
		if read.Last > 0 {
			bytes += sizeOf(count - 1 - taken)
		} else {
			bytes += sizeOf(taken)
		}
	}
	return taken, bytes
}

// Taken returns the messages that are to be read, of which count are taken.
func Taken[Message any](read repo.ReadSessions, messages []Message, count int) []Message {
	if read.Last > 0 {
		return messages[len(messages)-count:]
	}
	return messages[:count]
}
