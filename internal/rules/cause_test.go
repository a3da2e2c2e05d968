package rules_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestCauseRules(t *testing.T) {
	check := func(name, field, want string, transition repo.Transition, cause repo.Cause) {
		t.Run(field+"/"+string(transition)+"/"+name, func(t *testing.T) {
			_, err := rules.NormalizeCause(cause, transition)
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "actor", text.want, repo.TransitionStart, repo.Cause{Actor: text.value})
	}
	for name, text := range texts(limits.MaxTextBytes) {
		check(name, "reason", text.want, repo.TransitionRevert, repo.Cause{Reason: text.value})
		check(name, "reason", text.want, repo.TransitionCancel, repo.Cause{Reason: text.value})
	}
	for name, object := range objects {
		check(name, "details", object.want, repo.TransitionFail, repo.Cause{Reason: "x", Details: json.RawMessage(object.value)})
	}
	for _, transition := range rules.Transitions() {
		needs, has := "", "only a failure"
		switch transition {
		case repo.TransitionFail:
			needs, has = "is empty", ""
		case repo.TransitionCancel:
			needs = "is empty"
		}
		check("none", "reason", needs, transition, repo.Cause{})
		check("given", "reason", "", transition, repo.Cause{Reason: "x", Version: 1})
		check("given", "details", has, transition, repo.Cause{Reason: "x", Details: json.RawMessage(`{}`)})
		check("negative", "version", "is negative", transition, repo.Cause{Reason: "x", Version: -1})
	}
	for _, transition := range []repo.Transition{"", "use", "progress", secret} {
		check("unknown", "transition", "is not start", transition, repo.Cause{Reason: "x"})
	}
}

func TestProgressRules(t *testing.T) {
	for name, text := range texts(repo.MaxNameBytes) {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, rules.CheckProgress(repo.Progress{CheckpointID: &text.value}), fieldIf(text.want, "checkpoint_id"), text.want)
		})
	}
	for step, want := range map[int64]string{0: "", 1<<63 - 1: "", -1: "is negative"} {
		wantInvalid(t, rules.CheckProgress(repo.Progress{CompletedStep: &step}), fieldIf(want, "completed_step"), want)
	}
	wantInvalid(t, rules.CheckProgress(repo.Progress{}), "", "")
}
