package export_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

func generate(w io.Writer, count int64) error {
	writer, err := export.NewWriter(w, smallSession(count), nil)
	if err != nil {
		return err
	}
	for i := range count {
		message := messageAt(i)
		message.Content = benchContent
		if err := writer.Write(message); err != nil {
			return err
		}
	}
	return writer.Close()
}

var benchContent = strings.Repeat("A message of about 300 bytes, as agents write them.\n", 6)

var benchMessages = []struct {
	name    string
	message repo.Message
}{
	{"plain", repo.Message{Content: benchContent, Metadata: json.RawMessage("{}")}},
	{"metadata", repo.Message{Content: benchContent, Metadata: json.RawMessage(`{"model":"gpt-5","usage":{"in":120,"out":31},"tags":["a","b"]}`)}},
	{"payload", repo.Message{Content: benchContent, Metadata: json.RawMessage("{}"), Payload: bytes.Repeat([]byte{7}, 1000)}},
}

func BenchmarkWriter(b *testing.B) {
	for _, bench := range benchMessages {
		b.Run(bench.name, func(b *testing.B) {
			message := bench.message
			message.SessionID, message.ID, message.Role, message.CreatedAt = testID(1), testID(2), repo.RoleUser, day
			writer, err := export.NewWriter(io.Discard, smallSession(int64(b.N)), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.ResetTimer(); message.Sequence < int64(b.N); message.Sequence++ {
				if err := writer.Write(message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for _, bench := range benchMessages {
		b.Run(bench.name, func(b *testing.B) {
			const count = 1000
			messages := make([]repo.Message, count)
			for i := range messages {
				messages[i] = bench.message
				m := &messages[i]
				m.SessionID, m.ID, m.Role, m.CreatedAt, m.Sequence, m.Follows = testID(1), testID(2), repo.RoleUser, day, int64(i), int64(i)-1
			}
			text := encode(b, smallSession(count), nil, messages...)
			b.ReportAllocs()
			b.ResetTimer()
			var reader *export.Reader
			for i := range b.N {
				if i%count == 0 {
					var err error
					if reader, err = export.NewReader(strings.NewReader(text)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := reader.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
