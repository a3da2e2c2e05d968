package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeRedaction checks what Redact is given, and returns the sequences ascending, each once.
func NormalizeRedaction(sequences []int64, by repo.Cause) ([]int64, error) {
	_, err := NormalizeCause(by, repo.TransitionCancel)
	err = cmp.Or(
		invalidIf(len(sequences) == 0, "sequences", "is empty"),
		checkEach("sequences", len(sequences), repo.MaxPageSize, func(field string, i int) error {
			return CheckSequence(field, sequences[i])
		}),
		invalidIf(by.Version != 0 || by.Fence != 0, "by", "has more than an actor and a reason"),
		err,
	)
	return slices.Compact(slices.Sorted(slices.Values(sequences))), err
}

// Redactable is a message that is to be redacted.
type Redactable struct {
	Owner    repo.ID // the session of which it is: the same or one that it is a fork of
	Sequence int64
	Done     bool // it is redacted
	Held     bool // a hold keeps the owner, or one of its forks
	Foreign  bool // the owner is, or was, of another namespace than the view
}

// Redactions returns what is to be redacted of which session. found are the messages that exist of the sequences.
func Redactions(id repo.ID, sequences []int64, found []Redactable) (map[repo.ID][]int64, error) {
	bySequence, of := make(map[int64]Redactable, len(found)), map[repo.ID][]int64{}
	for _, m := range found {
		bySequence[m.Sequence] = m
	}
	for _, sequence := range sequences {
		switch m, is := bySequence[sequence]; {
		case !is:
			return nil, NoMessage(sequence)
		case m.Foreign:
			return nil, &repo.RefusedError{Kind: "session", ID: id, Reason: "has messages of another namespace"}
		case m.Held && !m.Done:
			return nil, HeldMessages(id)
		case !m.Done:
			of[m.Owner] = append(of[m.Owner], sequence)
		}
	}
	return of, nil
}

// RedactionNews is what followers are told: for each session the sequences of its own redacted messages, and for
// the session that was asked for all.
func RedactionNews(id repo.ID, of map[repo.ID][]int64) map[repo.ID][]int64 {
	told := maps.Clone(of)
	told[id] = slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(of))...)))
	return told
}

// Redacted returns a message of which only its place is left.
func Redacted(m repo.Message) repo.Message {
	m.Content, m.Kind, m.Metadata, m.Payload = "erased", repo.KindRedacted, json.RawMessage(`{}`), nil
	m.Tokens, m.Counter = 0, ""
	return m
}

// RedactionTurn is what tells the followers of a session.
func RedactionTurn(id repo.ID, sequences []int64) *Turn {
	message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleSystem, Kind: repo.KindRedacted}
	message.Metadata, _ = json.Marshal(map[string][]int64{"sequences": sequences}) //nolint:errchkjson // they are numbers
	return &Turn{SessionID: id, Messages: []repo.NewMessage{message}, Unfenced: true}
}

// IsRedaction reports whether a message tells that others are redacted, and says nothing itself.
func IsRedaction(m repo.Message) bool { return m.Kind == repo.KindRedacted && hasMember(m.Metadata) }

// IsEmptied reports whether a message of KindRedacted says no more than the store has it say.
func IsEmptied(m repo.Message) bool {
	var says struct{ Sequences []int64 }
	content, metadata := "erased", "{}"
	if IsRedaction(m) && m.Role == repo.RoleSystem && json.Unmarshal(m.Metadata, &says) == nil {
		content, metadata = "", string(RedactionTurn(m.SessionID, says.Sequences).Messages[0].Metadata)
	}
	return m.Content == content && m.Payload == nil && m.Tokens == 0 && string(m.Metadata) == metadata
}

// RedactionDetails are the details of the entry of the audit trail.
func RedactionDetails(sequences []int64, reason string) json.RawMessage {
	details, _ := json.Marshal(struct { //nolint:errchkjson // they are numbers and texts
		Entity    string  `json:"entity"`
		Sequences []int64 `json:"sequences"`
		Reason    string  `json:"reason"`
	}{"messages", sequences, reason})
	return details
}
