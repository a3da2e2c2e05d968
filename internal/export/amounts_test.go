//go:build !race

// These take minutes with the race detector. make test runs them without it.

package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestAmountOfMessage(t *testing.T) {
	message := messageAt(0)
	message.Content = strings.Repeat("\x01", repo.MaxContentBytes)
	message.Payload = bytes.Repeat([]byte{0xfb}, repo.MaxPayloadBytes)
	message.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("b", repo.MaxMetadataBytes-8) + `"}`)
	got := mustDecode(t, encode(t, smallSession(1), nil, message))
	if !reflect.DeepEqual(got.messages[0], message) {
		t.Error("the message came back changed")
	}
}

// A long session goes through a pipe; memory stays that of a few messages.
func TestAmountOfMemory(t *testing.T) {
	const count = 200_000
	pipeReader, pipeWriter := io.Pipe()
	go func() {
		_ = pipeWriter.CloseWithError(generate(pipeWriter, count))
	}()
	reader, err := export.NewReader(pipeReader)
	if err != nil {
		t.Fatal(err)
	}
	var peak, base uint64
	var stats runtime.MemStats
	for i := int64(0); ; i++ {
		message, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != i {
			t.Fatalf("message %d came as %d", message.Sequence, i)
		}
		if i%20_000 == 1000 {
			runtime.GC()
			runtime.ReadMemStats(&stats)
			if base == 0 {
				base = stats.HeapAlloc
			}
			peak = max(peak, stats.HeapAlloc)
		}
	}
	if got := reader.Session().MessageCount; got != count {
		t.Errorf("MessageCount is %d", got)
	}
	if grown := int64(peak) - int64(base); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestAmountOfState(t *testing.T) {
	long := `"` + strings.Repeat("é", 500_000) + `"`
	wantRoundTrip(t, contentOf(99, stateOf(long, long, long, long, long, long, long, long, long, long))) // in a file
}
