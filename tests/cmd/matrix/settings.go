package main

import "github.com/seed-df90f812/agentstore/tests/pgtest"

// factor is one thing that a deployment may have otherwise than a new server.
type factor struct {
	name   string
	values []value
}

type value struct {
	name    string
	setting pgtest.Setting
	// store says that only what goes through the store runs under this value:
	// the tests' own SQL would not.
	store bool
	// slow says that one pool's conformance suite is all that there is time for.
	slow bool
}

// factors are what the matrix varies. The value that a new server has is not
// among a factor's values.
var factors = []factor{
	{"isolation", []value{
		{name: "repeatable-read", setting: onServer("default_transaction_isolation", "repeatable read")},
		{name: "serializable", setting: onServer("default_transaction_isolation", "serializable")},
	}},
	{"clock", []value{{name: "steps-back", setting: pgtest.Setting{Clock: pgtest.StepsBack}, store: true}}},
	{"plans", []value{
		{name: "generic", setting: onServer("plan_cache_mode", "force_generic_plan")},
		{name: "custom", setting: onServer("plan_cache_mode", "force_custom_plan")},
	}},
	{"jit", []value{{name: "always", setting: onServer("jit", "on", "jit_above_cost", "0"), slow: true}}},
	{"schema", []value{{name: "capitals", setting: pgtest.Setting{Schema: "Agent Store"}}}},
	{"read-only", []value{{name: "by-default", setting: onDatabase("default_transaction_read_only", "on"), store: true}}},
	{"dates", []value{
		{name: "SQL-DMY", setting: onServer("DateStyle", "SQL, DMY", "TimeZone", "Asia/Kolkata")},
		{name: "German", setting: onServer("DateStyle", "German", "TimeZone", "America/St_Johns", "IntervalStyle", "sql_standard")},
	}},
	{"encoding", []value{{name: "LATIN1", setting: onDatabase("client_encoding", "LATIN1")}}},
	{"messages", []value{{name: "German", setting: onServer("lc_messages", "de_DE.UTF-8")}}},
	{"timeouts", []value{{name: "short", setting: onDatabase(
		"statement_timeout", "20s", "lock_timeout", "10s", "idle_in_transaction_session_timeout", "10s"), store: true}}},
	{"role", []value{{name: "owner", setting: pgtest.Setting{Owner: true}, store: true}}},
}

func onServer(settings ...string) pgtest.Setting { return pgtest.Setting{Server: mapOf(settings)} }

func onDatabase(settings ...string) pgtest.Setting { return pgtest.Setting{Database: mapOf(settings)} }

func mapOf(settings []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		m[settings[i]] = settings[i+1]
	}
	return m
}
