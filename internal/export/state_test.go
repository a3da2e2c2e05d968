package export_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

func stateOf(values ...string) (state []repo.StateValue) {
	for i, value := range values {
		state = append(state, repo.StateValue{Key: fmt.Sprintf("key/%02d", i), Value: json.RawMessage(value), Version: int64(i + 1), UpdatedAt: day})
	}
	return state
}

func contentOf(version int64, state []repo.StateValue) content {
	return content{session: smallSession(1), messages: []repo.Message{messageAt(0)}, version: version, state: state}
}

func TestStateRoundTrip(t *testing.T) {
	for name, values := range map[string][]repo.StateValue{
		"none": nil,
		"any": stateOf(`0`, ` 1 `, `-1.50e400`, `"x"`, `null`, "\ttrue\n", "\r\n{\"b\":1,\n \"a\":[1.0]}", `[ ]`, `"\u00e9\ud83d\ude00]}"`,
			`{"state":{"x":"]}\""}}`, `{"key":"x","version":1,"value":{"value":2}}`),
	} {
		t.Run(name, func(t *testing.T) { wantRoundTrip(t, contentOf(99, values)) })
	}
}

func TestStateFaults(t *testing.T) {
	document := encodeAll(t, contentOf(9, stateOf(`1`, `{"a":1}`)))
	for field, change := range map[string][2]string{
		"state.version":              {`"state":{"version":9`, `"state":{"version":-9`},
		"state.values":               {`"values":[`, `"values":0,"x":[`},
		"state.values[0].key":        {`"key/00"`, `""`},
		"state.values[1].key":        {`"key/01"`, `"key/00"`},
		"state.values[0].value":      {`"value":1`, `"value":01`},
		"state.values[1].value":      {`{"a":1}`, `{"a":1,"a":2}`},
		"state.values[1].version":    {`"version":2`, `"version":10`},
		"state.values[0].updated_at": {`"version":1,"updated_at":"2`, `"version":1,"updated_at":"x2`},
		"checksum":                   {`"value":1`, `"value":2`},
	} {
		faulty := strings.Replace(document, change[0], change[1], 1)
		_, err := decode(strings.NewReader(faulty))
		if got, ok := errors.AsType[*repo.ImportError](err); !ok || faulty == document || got.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for end := range len(document) - 1 {
		if _, err := decode(strings.NewReader(document[:end])); !errors.Is(err, repo.ErrImport) {
			t.Fatalf("cut off after %d bytes: %v", end, err)
		}
	}
}

// The state follows the messages: a reader that skips them finds the document incomplete.
func TestValuesFollowMessages(t *testing.T) {
	reader, err := export.NewReader(strings.NewReader(encodeAll(t, contentOf(9, stateOf(`1`)))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.NextValue(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
