package main

const (
	leasesSQL  = "queries/leases.sql"
	holdGo     = "repo/hold.go"
	leaseTests = "^Leases$"
)

var leaseMutants = []mutant{
	{
		name: "leases/a token from before the turn", file: leasesSQL,
		old: `), turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(@name::text, hashtext(@kind::text))) AS had
    WHERE NOT EXISTS (SELECT FROM other)
), given AS MATERIALIZED (
    SELECT clock_timestamp() AS now, nextval('lease_tokens') AS token FROM turn
)`,
		new: `), early AS MATERIALIZED (
    SELECT clock_timestamp() AS now, nextval('lease_tokens') AS token
    WHERE NOT EXISTS (SELECT FROM other)
), given AS MATERIALIZED (
    SELECT e.now, e.token, pg_advisory_xact_lock(hashtextextended(@name::text, hashtext(@kind::text))) AS had FROM early e
)`,
		tests: []tests{{"tests/postgres", "^TestLeaseTokenAfterTheWait$"}},
	},
	{
		name: "leases/acquired by the transaction's clock", file: leasesSQL,
		old:   "SELECT clock_timestamp() AS now, nextval('lease_tokens')",
		new:   "SELECT now() AS now, nextval('lease_tokens')",
		tests: []tests{{"tests/postgres", "^TestLeaseInAnOldTransaction$"}},
	},
	{
		name: "leases/renewed by the transaction's clock", file: leasesSQL,
		old:   "SELECT clock_timestamp() AS now FROM locked\n",
		new:   "SELECT now() AS now FROM locked\n",
		tests: []tests{{"tests/postgres", "^TestLeaseRenewedTooLate$"}},
	},
	{
		name: "leases/renewed by the clock before the row is free", file: leasesSQL,
		old:   "SELECT clock_timestamp() AS now FROM locked\n",
		new:   "SELECT clock_timestamp() AS now FROM turn\n",
		tests: []tests{{"tests/postgres", "^TestLeaseRenewedTooLate$"}},
	},
	{
		name: "leases/held for ever by another", file: leasesSQL,
		old:   "l.owner <> @owner::text AND l.expires_at > clock_timestamp()",
		new:   "l.owner <> @owner::text",
		tests: []tests{{"tests/postgres", pool + "^LeaseRaces$"}},
	},
	{
		name: "leases/taken from another", file: leasesSQL,
		old:   "owner = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.owner ELSE leases.owner END,",
		new:   "owner = excluded.owner,",
		tests: []tests{{"tests/postgres", pool + "^LeaseRaces$"}},
	},
	{
		name: "leases/a token for the same owner again", file: leasesSQL,
		old:   "token = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.token ELSE leases.token END,",
		new:   "token = excluded.token,",
		tests: []tests{{"tests/postgres", pool + leaseTests}},
	},
	{
		name: "leases/the old token after the expiry", file: leasesSQL,
		old:   "token = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.token ELSE leases.token END,",
		new:   "token = leases.token,",
		tests: []tests{{"tests/postgres", pool + "^LeaseRaces$"}},
	},
	{
		name: "leases/shortened by acquiring again", file: leasesSQL,
		old:   "THEN greatest(leases.expires_at, excluded.expires_at)",
		new:   "THEN excluded.expires_at",
		tests: []tests{{"tests/postgres", pool + leaseTests}},
	},
	{
		name: "leases/shortened by a renewal", file: leasesSQL,
		old:   "SET expires_at = greatest(l.expires_at, c.now + make_interval(secs => @ttl_seconds::float8))",
		new:   "SET expires_at = c.now + make_interval(secs => @ttl_seconds::float8)",
		tests: []tests{{"tests/postgres", pool + leaseTests}},
	},
	{
		name: "leases/renewed after the expiry", file: leasesSQL,
		old:   "AND l.token = @token AND l.expires_at > c.now",
		new:   "AND l.token = @token",
		tests: []tests{{"tests/postgres", pool + "^LeaseRaces$"}},
	},
	{
		name: "leases/renewed with any token", file: leasesSQL,
		old:   "AND l.token = @token AND l.expires_at > c.now",
		new:   "AND @token::bigint > 0 AND l.expires_at > c.now",
		tests: []tests{{"tests/postgres", pool + leaseTests}},
	},
	{
		name: "leases/released with any token", file: leasesSQL,
		old:   "AND l.token = @token;",
		new:   "AND @token::bigint > 0;",
		tests: []tests{{"tests/postgres", pool + leaseTests}},
	},
	{
		name: "leases/a conflict after a lost answer", file: "repo/postgres/leases.go",
		old:   "return &answer{errNotMoved} // in doubt",
		new:   "return &answer{rules.LeaseConflict(found)} // in doubt",
		tests: []tests{{"tests/postgres", "^TestLeaseAttemptArrivesLate$"}},
	},
	{
		name: "leases/shortened in memory", file: "repo/rules/lease.go",
		old:   "if expiresAt.After(l.ExpiresAt) {",
		new:   "if true {",
		tests: []tests{{"repo/memory", "^TestConformance$/" + leaseTests}},
	},
	{
		name: "leases/held from the answer of an acquisition", file: holdGo,
		old:   "h.lease, h.sent = acquired, sent",
		new:   "_, h.lease, h.sent = sent, acquired, now()",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/a slow answer that nobody holds", file: holdGo,
		old:   "case attempt == 0, h.left() <= 0, errors.Is(err, ErrConflict):",
		new:   "default:",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/held from the answer of a renewal", file: holdGo,
		old:   "h.lease, h.sent = renewed, sent",
		new:   "_, h.lease, h.sent = sent, renewed, h.now()",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/held to the last moment", file: holdGo,
		old:   "return h.ttl - h.ttl/marginPart - h.now().since(h.sent)",
		new:   "return h.ttl - h.now().since(h.sent)",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/a context that waits for timers", file: holdGo,
		old:   "	c.held.check()\n	return c.Context.Err()",
		new:   "	return c.Context.Err()",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/held on a machine that was suspended", file: holdGo,
		old:   "return max(m.monotonic-before.monotonic, m.wall.Sub(before.wall))",
		new:   "return m.monotonic - before.monotonic",
		tests: []tests{{"repo", "^TestHold"}},
	},
	{
		name: "leases/held by a clock that is set back", file: holdGo,
		old:   "return max(m.monotonic-before.monotonic, m.wall.Sub(before.wall))",
		new:   "return m.wall.Sub(before.wall)",
		tests: []tests{{"repo", "^TestHold"}},
	},
}
