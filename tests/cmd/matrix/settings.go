package main

import "github.com/seed-df90f812/agentstore/tests/pgtest"

// factor is something in which a deployment may differ from a new server.
type factor struct {
	name   string
	values []value
}

type value struct {
	name    string
	setting pgtest.Setting
	// store: under this value only tests of the store run, because the tests' own SQL
	// would fail.
	store bool
	// slow: there is only time for a part of the tests.
	slow bool
}

// factors are what the matrix varies. The value of a new server is not among their
// values.
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
	// How pgx sends queries (pgx.QueryExecMode), beside its default, cache_statement.
	{"exec-mode", []value{execMode("cache_describe"), execMode("describe_exec"), execMode("exec"), execMode("simple_protocol")}},
}

func execMode(name string) value {
	return value{name: name, setting: pgtest.Setting{Parameters: map[string]string{"default_query_exec_mode": name}}, store: true}
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
