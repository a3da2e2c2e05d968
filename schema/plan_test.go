package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name    string
		applied []int64
		target  Target
		want    string
		err     error
	}{
		{name: "all of an empty database", target: TargetLatest(), want: "up 1, up 2, up 3"},
		{name: "the rest", applied: []int64{1}, target: TargetLatest(), want: "up 2, up 3"},
		{name: "nothing", applied: []int64{1, 2, 3}, target: TargetLatest()},
		{name: "up to", target: TargetUp(2), want: "up 1, up 2"},
		{name: "up to what is past", applied: []int64{1, 2}, target: TargetUp(1)},
		{name: "one step up", applied: []int64{1}, target: TargetUpSteps(1), want: "up 2"},
		{name: "one step down", applied: []int64{1, 2, 3}, target: TargetDownSteps(1), want: "down 3"},
		{name: "more steps than there are", applied: []int64{1, 2}, target: TargetDownSteps(9), want: "down 2, down 1"},
		{name: "down to", applied: []int64{1, 2, 3}, target: TargetDown(1), want: "down 3, down 2"},
		{name: "down to nothing", applied: []int64{1, 2}, target: TargetDown(0), want: "down 2, down 1"},
		{name: "down of an empty database", target: TargetDownSteps(1)},
		{name: "down over a gap", applied: []int64{1, 3}, target: TargetDownSteps(1), want: "down 3"},

		{name: "ahead", applied: []int64{1, 2, 3, 4}, target: TargetLatest(), err: &AheadError{Have: 4, Want: 3, Oldest: 4}},
		{name: "ahead, down", applied: []int64{1, 2, 3, 4}, target: TargetDownSteps(1), err: &AheadError{Have: 4, Want: 3, Oldest: 4}},
		{name: "gap", applied: []int64{1, 3}, target: TargetLatest(), err: &GapError{Missing: 2, Have: 3}},
		{name: "unknown target up", target: TargetUp(4), err: &UnknownVersionError{Version: 4}},
		{name: "unknown target down", target: TargetDown(7), err: &UnknownVersionError{Version: 7}},
		{name: "negative", target: TargetDown(-1), err: errAny},
		{name: "no step up", target: TargetUpSteps(0), err: errAny},
		{name: "no step down", applied: []int64{1}, target: TargetDownSteps(0), err: errAny},
		{name: "zero target", target: Target{}, err: errAny},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps, err := plan(threeMigrations, rows(test.applied), test.target)
			if errors.Is(test.err, errAny) && err != nil {
				return
			}
			if !reflect.DeepEqual(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if got := describe(steps); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Version 4 is of a newer library, and declares the oldest one that works on it.
func TestPlanOfADatabaseThatIsAhead(t *testing.T) {
	for _, test := range []struct {
		name    string
		applied []int64
		oldest  int64
		target  Target
		err     error
	}{
		{name: "allowed", applied: []int64{1, 2, 3, 4}, oldest: 3, target: TargetLatest()},
		{name: "older ones allowed too", applied: []int64{1, 2, 3, 4}, oldest: 1, target: TargetUp(2)},
		{name: "refused", applied: []int64{1, 2, 3, 4}, oldest: 4, target: TargetLatest(), err: &AheadError{Have: 4, Want: 3, Oldest: 4}},
		{name: "allowed, down", applied: []int64{1, 2, 3, 4}, oldest: 3, target: TargetDownSteps(1), err: &AheadError{Have: 4, Want: 3, Oldest: 3, Revert: true}},
		{name: "allowed, a gap", applied: []int64{1, 3, 4}, oldest: 3, target: TargetLatest(), err: &GapError{Missing: 2, Have: 4}},
		{name: "allowed, mine is missing", applied: []int64{1, 2, 4}, oldest: 3, target: TargetLatest(), err: &GapError{Missing: 3, Have: 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			applied := rows(test.applied)
			applied[0].OldestLibrary = test.oldest
			steps, err := plan(threeMigrations, applied, test.target)
			if !reflect.DeepEqual(err, test.err) || len(steps) != 0 {
				t.Errorf("%v, error %v, want %v", steps, err, test.err)
			}
		})
	}
	// Version 3 requires library 3; version 4 cannot lower that.
	applied := rows([]int64{1, 2, 3, 4})
	applied[0].OldestLibrary = 2
	if _, err := plan(threeMigrations[:2], applied, TargetLatest()); !reflect.DeepEqual(err, error(&AheadError{Have: 4, Want: 2, Oldest: 3})) {
		t.Errorf("got %v", err)
	}
}

func TestPlanRefusesAnUnknownVersionInBetween(t *testing.T) {
	migrations := []Migration{{Version: 1}, {Version: 3}}
	_, err := plan(migrations, rows([]int64{1, 2, 3}), TargetLatest())
	if want := error(&UnknownVersionError{Version: 2, Applied: true}); !reflect.DeepEqual(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestTypedErrorsAreTheirSentinels(t *testing.T) {
	for err, sentinel := range map[error]error{
		&BehindError{}:                 ErrBehind,
		&AheadError{}:                  ErrAhead,
		&GapError{}:                    ErrGap,
		&UnknownVersionError{}:         ErrUnknownVersion,
		&LockedError{}:                 ErrLocked,
		&StepError{Err: ErrDataLoss}:   ErrDataLoss,
		fmt.Errorf("x: %w", ErrPooled): ErrPooled,
	} {
		if !errors.Is(err, sentinel) {
			t.Errorf("%T is not %v", err, sentinel)
		}
	}
}

var (
	errAny          = errors.New("any error")
	threeMigrations = []Migration{{Version: 1}, {Version: 2}, {Version: 3}}
)

// rows returns the content of the version table.
func rows(versions []int64) []appliedVersion {
	var applied []appliedVersion
	for _, version := range slices.Backward(versions) {
		applied = append(applied, appliedVersion{Version: version, OldestLibrary: version})
	}
	return applied
}

func describe(steps []Step) string {
	text := ""
	for i, step := range steps {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", step.Direction, step.Version)
	}
	return text
}
