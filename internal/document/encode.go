package document

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// The functions named append… write a value as it stands in the document, those
// named canonical… as it goes into the checksum: members sorted by name,
// metadata in canonical form.

func appendSession(dst []byte, s *repo.Session) []byte {
	dst = appendID(append(dst, `{"id":`...), s.ID)
	dst = jsonvalue.AppendString(append(dst, `,"namespace":`...), s.Namespace)
	if s.Actor != "" {
		dst = jsonvalue.AppendString(append(dst, `,"actor":`...), s.Actor)
	}
	if s.AutomationProfile != "" {
		dst = jsonvalue.AppendString(append(dst, `,"automation_profile":`...), s.AutomationProfile)
	}
	dst = appendMetadata(append(dst, `,"metadata":`...), s.Metadata)
	dst = appendInt(append(dst, `,"usage":{"input_tokens":`...), s.Usage.InputTokens)
	dst = appendInt(append(dst, `,"output_tokens":`...), s.Usage.OutputTokens)
	dst = appendInt(append(dst, `,"cost_nanos":`...), int64(s.Usage.Cost))
	dst = append(dst, '}')
	if s.Budget != nil {
		dst = appendInt(append(dst, `,"budget_nanos":`...), int64(*s.Budget))
	}
	dst = appendTime(append(dst, `,"created_at":`...), s.CreatedAt)
	dst = appendTime(append(dst, `,"updated_at":`...), s.UpdatedAt)
	return append(dst, '}')
}

func canonicalSession(dst []byte, s *repo.Session) ([]byte, error) {
	dst = append(dst, '{')
	if s.Actor != "" {
		dst = append(jsonvalue.AppendString(append(dst, `"actor":`...), s.Actor), ',')
	}
	if s.AutomationProfile != "" {
		dst = append(jsonvalue.AppendString(append(dst, `"automation_profile":`...), s.AutomationProfile), ',')
	}
	if s.Budget != nil {
		dst = append(appendInt(append(dst, `"budget_nanos":`...), int64(*s.Budget)), ',')
	}
	dst = appendTime(append(dst, `"created_at":`...), s.CreatedAt)
	dst = appendID(append(dst, `,"id":`...), s.ID)
	dst, err := canonicalMetadata(append(dst, `,"metadata":`...), s.Metadata)
	if err != nil {
		return nil, fmt.Errorf("session %s: metadata: %w", s.ID, err)
	}
	dst = jsonvalue.AppendString(append(dst, `,"namespace":`...), s.Namespace)
	dst = appendTime(append(dst, `,"updated_at":`...), s.UpdatedAt)
	dst = appendInt(append(dst, `,"usage":{"cost_nanos":`...), int64(s.Usage.Cost))
	dst = appendInt(append(dst, `,"input_tokens":`...), s.Usage.InputTokens)
	dst = appendInt(append(dst, `,"output_tokens":`...), s.Usage.OutputTokens)
	return append(dst, "}}"...), nil
}

func appendMessage(dst []byte, m *repo.Message) []byte {
	dst = appendID(append(dst, `{"id":`...), m.ID)
	dst = appendInt(append(dst, `,"sequence":`...), m.Sequence)
	dst = jsonvalue.AppendString(append(dst, `,"role":`...), string(m.Role))
	dst = jsonvalue.AppendString(append(dst, `,"content":`...), m.Content)
	dst = appendMetadata(append(dst, `,"metadata":`...), m.Metadata)
	if m.Payload != nil {
		dst = appendBytes(append(dst, `,"payload":`...), m.Payload)
	}
	if !m.OccurredAt.IsZero() {
		dst = appendTime(append(dst, `,"occurred_at":`...), m.OccurredAt)
	}
	dst = appendTime(append(dst, `,"created_at":`...), m.CreatedAt)
	return append(dst, '}')
}

func canonicalMessage(dst []byte, m *repo.Message) ([]byte, error) {
	dst = jsonvalue.AppendString(append(dst, `{"content":`...), m.Content)
	dst = appendTime(append(dst, `,"created_at":`...), m.CreatedAt)
	dst = appendID(append(dst, `,"id":`...), m.ID)
	dst, err := canonicalMetadata(append(dst, `,"metadata":`...), m.Metadata)
	if err != nil {
		return dst, fmt.Errorf("message %d: metadata: %w", m.Sequence, err)
	}
	if !m.OccurredAt.IsZero() {
		dst = appendTime(append(dst, `,"occurred_at":`...), m.OccurredAt)
	}
	if m.Payload != nil {
		dst = appendBytes(append(dst, `,"payload":`...), m.Payload)
	}
	dst = jsonvalue.AppendString(append(dst, `,"role":`...), string(m.Role))
	dst = appendInt(append(dst, `,"sequence":`...), m.Sequence)
	return append(dst, '}'), nil
}

// appendIDs has one form for both.
func appendIDs(dst []byte, ids []repo.ID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, id)
	}
	return append(dst, ']')
}

func appendID(dst []byte, id repo.ID) []byte {
	var text [26]byte
	_ = id.MarshalTextTo(text[:]) // fails on another length alone
	dst = append(append(dst, '"'), text[:]...)
	return append(dst, '"')
}

func appendInt(dst []byte, value int64) []byte { return strconv.AppendInt(dst, value, 10) }

func appendBytes(dst, value []byte) []byte {
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), value)
	return append(dst, '"')
}

func appendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(append(dst, '"'), timeLayout)
	return append(dst, '"')
}

// appendMetadata embeds the object byte for byte. encoding/json would compact
// it and rewrite its strings.
func appendMetadata(dst, metadata []byte) []byte {
	if len(metadata) == 0 {
		return append(dst, "{}"...)
	}
	return append(dst, metadata...)
}

func canonicalMetadata(dst, metadata []byte) ([]byte, error) {
	if len(metadata) == 0 {
		return append(dst, "{}"...), nil
	}
	return jsonvalue.AppendCanonical(dst, metadata)
}
