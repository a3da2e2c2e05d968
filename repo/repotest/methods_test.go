package repotest

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// Each method of the contract has a call, and each call a method.
func TestContractHasEveryMethod(t *testing.T) {
	t.Parallel()
	interfaces := map[string]reflect.Type{
		"Log": reflect.TypeFor[auditlog.Store](), "Sink": reflect.TypeFor[auditlog.Sink](),
	}
	for method := range reflect.TypeFor[repo.Repositories]().Methods() {
		interfaces[method.Name] = method.Type.Out(0)
	}
	calls := slices.Concat(contract, auditLogCalls, sinkCalls)
	known := map[string]bool{}
	for name, methods := range interfaces {
		for method := range methods.Methods() {
			known[name+"."+method.Name] = true
			if !slices.ContainsFunc(calls, func(c call) bool { return c.only == 0 && c.of(name+"."+method.Name) }) {
				t.Errorf("%s.%s has no call: see methods.go", name, method.Name)
			}
		}
	}
	for _, c := range calls {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(known)), c.of) {
			t.Errorf("the call %s is of no method", c.name)
		}
	}
	for method := range reflect.TypeFor[repo.Store]().Methods() {
		if _, repository := interfaces[method.Name]; !repository && method.Name != "InTx" && method.Name != "Close" {
			t.Errorf("Store.%s is not tested as the repositories are", method.Name)
		}
	}
}
