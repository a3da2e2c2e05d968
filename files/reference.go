package files

import (
	"encoding/json"

	"github.com/seed-df90f812/agentstore/repo"
)

// Reference is what a message has of a version, in place of its bytes.
type Reference struct {
	ID      string `json:"id"` // for OpenID
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
}

// Reference returns what a message has of the version.
func (f File) Reference() Reference { return Reference{f.ID, f.Name, f.Version, f.Type, f.Size} }

type payload struct {
	Files []Reference `json:"files"`
}

// Payload returns the payload of a message that refers to versions: {"files":[…]}.
func Payload(references ...Reference) []byte { return encode(payload{references}) }

// References returns what a payload of [Payload] refers to. Another payload has none.
func References(message repo.Message) []Reference {
	var p payload
	if json.Unmarshal(message.Payload, &p) != nil {
		return nil
	}
	return p.Files
}

// FileTokens is how many tokens a file is taken to have in a prompt, such as a picture.
const FileTokens = 1600

// Estimate returns a function for window.Options.Estimate: a message has the tokens of its files, by tokens, in place
// of its payload's, and for the rest what text says, such as window.Estimate, to which it is given without the
// payload. A message that was counted when it was appended has what was counted. A nil tokens: FileTokens for each.
func Estimate(text func(repo.Message) int64, tokens func(Reference) int64) func(repo.Message) int64 {
	if tokens == nil {
		tokens = func(Reference) int64 { return FileTokens }
	}
	return func(m repo.Message) int64 {
		references := References(m)
		if len(references) == 0 || m.Tokens > 0 {
			return text(m)
		}
		m.Payload = nil
		sum := text(m)
		for _, r := range references {
			sum += tokens(r)
		}
		return sum
	}
}
