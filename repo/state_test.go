package repo

import "testing"

func TestScopeStateValue(t *testing.T) {
	state := ScopeState{Values: []StateValue{{Key: "B", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "é", Value: []byte("3")}}}
	for key, want := range map[string]string{"B": "1", "a": "2", "é": "3", "": "", "A": "", "b": "", "z": "", "ü": ""} {
		if got := string(state.Value(key)); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
	if got := (ScopeState{}).Value("a"); got != nil {
		t.Errorf("an empty scope has %q", got)
	}
}
