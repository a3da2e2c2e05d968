package postgres

// fillPlans is like fill, for actions and plans: 5,000 plans over 20 namespaces and
// all stages, a fifth of them children, with their parts, history and links.
const fillPlans = `
INSERT INTO actions (name, namespace, reusable, read_only, invariants)
SELECT 'ns' || n % 20 || '/action' || n, 'ns' || n % 20, true, false, '{x,x}' FROM generate_series(1, 5000) n;
INSERT INTO plans (id, namespace, action_name, root_id, phase, state)
SELECT CAST(lpad(to_hex(n), 32, '0') AS uuid), 'ns' || n % 20, 'ns' || n % 20 || '/action' || n, CAST(lpad(to_hex(n), 32, '0') AS uuid),
    (ARRAY['strategize', 'execute', 'apply'])[1 + n % 3], (ARRAY['queued', 'processing', 'complete'])[1 + n / 3 % 3]
FROM generate_series(1, 5000) n;
INSERT INTO plans (id, namespace, action_name, root_id, parent_id, depth, phase, state)
SELECT gen_random_uuid(), p.namespace, p.action_name, p.id, p.id, 1, 'execute', 'queued' FROM plans p, generate_series(1, 2);
INSERT INTO plan_projects (project, plan_id) SELECT 'project' || hashtext(p.id::text) % 5, p.id FROM plans p;
INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state) SELECT id, 1, 'use', phase, state FROM plans;
INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, attempt, max_attempts, check_at)
SELECT id, namespace, action_name, phase, 'o', 1, 5, now() + interval '1 hour' FROM plans WHERE state = 'processing';
INSERT INTO plan_limits (namespace, action_name, at_once) SELECT 'ns' || n % 20, CASE WHEN n < 20 THEN '' ELSE 'ns' || n % 20 || '/action' || n END, 5
FROM generate_series(0, 5000) n;
INSERT INTO plan_ends (plan_id, delete_at) SELECT id, now() + interval '1 hour' FROM plans WHERE state = 'complete';
INSERT INTO session_plans (session_id, plan_id)
SELECT s.id, p.id FROM (SELECT id, row_number() OVER () AS n FROM sessions) s
JOIN (SELECT id, row_number() OVER () AS n FROM plans) p ON p.n % 5000 = s.n % 5000;
ANALYZE;`
