package repo_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// secret is in the values that the tests make invalid: no error may repeat it.
const secret = "SECRET"

// wantInvalid checks that err is an InvalidError of field, says want and repeats no
// value. An empty field means that there is no error.
func wantInvalid(t *testing.T, err error, field, want string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var invalid *repo.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("got %v, want an InvalidError", err)
		return
	}
	if invalid.Field != field || !strings.Contains(invalid.Reason, want) {
		t.Errorf("got %q, want field %s and %q", err, field, want)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error repeats content: %v", err)
	}
}
