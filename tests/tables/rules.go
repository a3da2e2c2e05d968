package tables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// rules are broken by a copy of a row that has other values, one rule each: SQL as of an
// UPDATE's SET, and on which row if not on any. Primary keys are not listed: a copy that is
// the same breaks them.
var rules = func() map[string]string {
	all := maps.Clone(sessionRules)
	maps.Copy(all, planRules)
	maps.Copy(all, auditRules)
	return all
}()

// implied are rules that cannot be broken alone: the server finds the primary key first.
var implied = []string{"plans_root_id_id_key"}

// found are the rules of the session's schema, with their tables: CHECKs, foreign keys and
// what is unique. If a CHECK calls a function of the schema, its rules are those that the
// function can raise.
const found = `
WITH checks AS (
	SELECT k.conname, k.conrelid, k.contype, p.prosrc FROM pg_constraint k
	LEFT JOIN (pg_depend d JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid)
		ON k.contype = 'c' AND d.classid = 'pg_constraint'::regclass AND d.objid = k.oid AND p.pronamespace = k.connamespace
	WHERE k.connamespace = quote_ident(current_schema())::regnamespace AND k.contype IN ('c', 'f')
), all_rules AS (
	SELECT conname AS rule, conrelid AS relation, CASE contype WHEN 'c' THEN '23514' ELSE '23503' END AS code FROM checks WHERE prosrc IS NULL
	UNION ALL SELECT name[1], conrelid, '23514' FROM checks, regexp_matches(prosrc, '''([a-z0-9_]+_check)''', 'g') AS name
	UNION ALL SELECT c.relname, i.indrelid, '23505' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND i.indisunique AND NOT i.indisprimary
)
SELECT r.rule::text, c.relname::text, r.code FROM all_rules r JOIN pg_class c ON c.oid = r.relation
WHERE NOT c.relispartition AND c.relname <> 'agentstore_migrations'`

// rule is a rule of the schema.
type rule struct{ Name, Table, Code string }

// CheckRules breaks each rule of a schema that Fill has filled, and each primary key. The
// schema must have the rules that are listed here, and no other. The rows are inserted under
// the given search_path (SQL), whatever the connection's is; empty: under the connection's.
func CheckRules(t testing.TB, conn *pgx.Conn, path string) {
	t.Helper()
	rows, _ := conn.Query(t.Context(), found)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rule])
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range all {
		broken, listed := rules[rule.Name]
		if !listed {
			t.Errorf("the rule %s of %s is not tested", rule.Name, rule.Table)
			continue
		}
		refused := Break(t, conn, rule.Table, broken, path)
		// The table that is named may be a partition.
		if refused == nil || refused.Code != rule.Code || !strings.HasPrefix(refused.TableName, rule.Table) ||
			refused.ConstraintName != rule.Name && !slices.Contains(implied, rule.Name) {
			t.Errorf("%s of %s: %+v", rule.Name, rule.Table, refused)
		}
	}
	for name := range rules {
		if !slices.ContainsFunc(all, func(r rule) bool { return r.Name == name }) {
			t.Errorf("the schema has no rule %s", name)
		}
	}
	for _, table := range slices.DeleteFunc(Names(t, conn), func(name string) bool { return name == Emptied }) {
		if refused := Break(t, conn, table, "", path); refused == nil || refused.Code != "23505" {
			t.Errorf("the same row again in %s: %+v", table, refused)
		}
	}
}

// Break inserts a copy of a row with some values changed, as an UPDATE's SET says, in a
// transaction that it rolls back. It returns how the server refuses it; nil: it does not.
func Break(t testing.TB, conn *pgx.Conn, table, change, path string) *pgconn.PgError {
	t.Helper()
	set, where, _ := strings.Cut(change, " WHERE ")
	if where == "" {
		where = "true"
	}
	var qualified, columns string
	if err := conn.QueryRow(t.Context(), `
		SELECT format('%I.%I', current_schema(), $1::text), string_agg(quote_ident(attname), ', ')
		FROM pg_attribute WHERE attrelid = quote_ident($1)::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
		table).Scan(&qualified, &columns); err != nil {
		t.Fatal(err)
	}
	// A table that was made from a query has no rules.
	sql := fmt.Sprintf("BEGIN; CREATE TEMPORARY TABLE broken AS SELECT %s FROM %s WHERE %s LIMIT 1;", columns, qualified, where)
	if set != "" {
		sql += fmt.Sprintf("UPDATE broken SET %s;", set)
	}
	if path != "" {
		sql += fmt.Sprintf("SET LOCAL search_path = %s;", path)
	}
	sql += fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM pg_temp.broken; SET CONSTRAINTS ALL IMMEDIATE;", qualified, columns)
	_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	pgtest.Exec(t, conn, "ROLLBACK")
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatal(err)
	}
	return refused
}
