package export_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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

func encodeState(t *testing.T, version int64, values []repo.StateValue) string {
	t.Helper()
	var buffer export.StateBuffer
	defer buffer.Close()
	for _, value := range values {
		if err := buffer.Add(value); err != nil {
			t.Fatal(err)
		}
	}
	var document strings.Builder
	w, err := export.NewWriter(&document, smallSession(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(messageAt(0)); err != nil {
		t.Fatal(err)
	}
	if err := w.BeginState(version); err != nil {
		t.Fatal(err)
	}
	if err := buffer.Replay(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return document.String()
}

func decodeState(r io.Reader) (version int64, values []repo.StateValue, err error) {
	reader, err := export.NewReader(r)
	if err != nil {
		return 0, nil, err
	}
	reader.State = func(value repo.StateValue) error {
		values = append(values, value)
		return nil
	}
	for {
		if _, err := reader.Next(); errors.Is(err, io.EOF) {
			return reader.StateVersion(), values, nil
		} else if err != nil {
			return 0, nil, err
		}
	}
}

func TestStateRoundTrip(t *testing.T) {
	for name, values := range map[string][]repo.StateValue{
		"none": nil,
		"any":  stateOf(`0`, ` 1 `, `-1.50e400`, `"x"`, `null`, "\ttrue\n", `{"b":1, "a":[1.0]}`, `[ ]`, `"\u00e9\ud83d\ude00]}"`, `{"state":{"x":"]}\""}}`),
	} {
		t.Run(name, func(t *testing.T) {
			document := wantStateRoundTrip(t, values)
			if formatted := strings.NewReplacer(`,"version"`, ` , "version"`, `"state":{`, "\"state\" : {\n").Replace(document); name == "none" {
				if _, _, err := decodeState(strings.NewReader(formatted)); err != nil {
					t.Errorf("formatted: %v", err)
				}
			}
		})
	}
}

func wantStateRoundTrip(t *testing.T, values []repo.StateValue) (document string) {
	t.Helper()
	document = encodeState(t, 99, values)
	if want := slowChecksum(t, document); !strings.Contains(document, want) {
		t.Errorf("the checksum is not %s", want)
	}
	version, got, err := decodeState(strings.NewReader(document))
	if err != nil || version != 99 || !reflect.DeepEqual(got, values) {
		t.Errorf("version %d, %d keys, %v", version, len(got), err)
	}
	return document
}

func TestStateFaults(t *testing.T) {
	document := encodeState(t, 9, stateOf(`1`, `{"a":1}`))
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
		_, _, err := decodeState(strings.NewReader(faulty))
		if got, ok := errors.AsType[*repo.ImportError](err); !ok || faulty == document || got.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for end := range len(document) - 1 {
		if _, _, err := decodeState(strings.NewReader(document[:end])); !errors.Is(err, repo.ErrImport) {
			t.Fatalf("cut off after %d bytes: %v", end, err)
		}
	}
}

// The error of the caller's function is returned as it is, and the document refused.
func TestStateRefused(t *testing.T) {
	reader, err := export.NewReader(strings.NewReader(encodeState(t, 9, stateOf(`1`, `2`))))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	reader.State = func(repo.StateValue) error { return broken }
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := reader.Next(); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}
