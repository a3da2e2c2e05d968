package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// workloads returns the workloads in the order in which they run. Workloads with
// long sessions are last: the others begin with empty tables.
func workloads() []workload {
	return append(figures(), curves()...)
}

func figures() []workload {
	return slices.Concat(appendWorkloads(), besideWorkloads(), writeWorkloads(), readWorkloads(), followWorkloads(), streamWorkloads())
}

// appendWorkloads compare appends with other ways to make them.
func appendWorkloads() []workload {
	return []workload{
		appendWorkload(64, 1, []string{wayNaive, wayRetry, wayBare}, rateGoal(wayNaive, 20), rateGoal(wayBare, 2)),
		appendWorkload(64, 1000, []string{wayNaive, wayRetry, wayBare}, rateGoal(wayNaive, 4), rateGoal(wayBare, 1.3)),
		appendWorkload(256, 1000, []string{wayNaive, wayBare}, rateGoal(wayBare, 2.5)),
		appendWorkload(16, 1000, []string{wayNaive, wayBare}, rateGoal(wayNaive, 1.5), rateGoal(wayBare, 0.85)),
		appendWorkload(8, 1000, []string{wayBare, wayCounted}, rateGoal(wayBare, 0.9)),
		appendWorkload(4, 1000, []string{wayBare, wayCounted}, rateGoal(wayBare, 0.9)),
		appendWorkload(2, 1000, []string{wayBare, wayCounted}, rateGoal(wayBare, 0.9)),
		{
			name: "append-100kB", title: "messages of 100 kB, 16 writers, 1,000 sessions", unit: "appends/s",
			prepare: appendsOf(16, 1000, batch(1, 100_000), wayOurs, wayBare), goals: []goal{rateGoal(wayBare, 0.8)},
		},
	}
}

// besideWorkloads have what stands in the way of others: locks that are held, and old snapshots.
func besideWorkloads() []workload {
	return []workload{
		heldSessions(1),
		heldSessions(100),
		heldScope("turns", "16 writers of turns on another shared scope", "turns/s", true, 0.9),
		heldScope("appends", "16 writers of appends", "appends/s", false, 0.95),
		olderSnapshot("8w-10s", "8 writers, 10 sessions", "appends/s", 8, appendWork(10)),
		olderSnapshot("1w-1s", "1 writer, 1 session", "appends/s", 1, appendWork(1)),
		olderSnapshot("parts", "parts of 8 streams", "parts/s", 8, partWork(8)),
		olderSnapshot("claims", "8 workers that queue, claim and complete plans", "plans/s", 8, claimWork),
		olderSnapshot("lease", "1 lease", "renewals/s", 1, renewalWork(1), "leases"),
		olderSnapshot("leases", "100 leases in turn", "renewals/s", 1, renewalWork(100), "leases"),
		slowed(olderSnapshot("key", "1 key of a session's state", "changes/s", 1, keyWork(1), "state_scopes", "state_values")),
		slowed(olderSnapshot("keys", "100 keys of a session's state in turn", "changes/s", 1, keyWork(100), "state_scopes", "state_values")),
		slowed(olderSnapshot("scope", "16 writers that increment a key of a shared scope", "changes/s", 16, scopeWork, "state_scopes", "state_values")),
		slowed(olderSnapshot("open", "a stream opened again and again", "opens/s", 1, openWork, "streams")),
		olderSnapshot("open-end", "streams of one key, opened and ended", "streams/s", 1, openEndWork, "streams"),
		slowed(olderSnapshot("usage", "usages of 1 session", "usages/s", 1, usageWork, "sessions")),
	}
}

// writeWorkloads are of other writes.
func writeWorkloads() []workload {
	return []workload{
		{
			name: "turns-64w-1000s", title: "turns that change a shared scope, 64 writers, 1,000 sessions", unit: "turns/s",
			prepare: turns(64, 1000),
			goals: []goal{
				{subject: wayShared, baseline: wayPlain, figure: 0.6},
				{subject: wayShared, baseline: wayPlain, latency: true, tail: true, figure: 2},
				{subject: wayOneKey, baseline: wayPlain, figure: 0.4},
			},
		},
		appendWorkload(1, 1, []string{wayNaive, wayBare, wayCounted}, latencyGoal(wayOurs, wayBare, 1.15)),
		{
			name: "append-fenced", title: "1 writer, 1 session, with the fence of a lease", unit: "appends/s",
			prepare: fenced(1), goals: []goal{latencyGoal(wayFenced, wayOurs, 1.05)},
		},
		{
			name: "append-fenced-64w-1000s", title: "64 writers, 1,000 sessions, with fences of their leases", unit: "appends/s",
			prepare: fenced(64), goals: []goal{{subject: wayFenced, baseline: wayOurs, figure: 0.9}},
		},
		{
			name: "create", title: "create a session, beside an append", unit: "operations/s",
			prepare: creates, goals: []goal{latencyGoal(wayCreate, wayOurs, 1.5)},
		},
		{
			name: "append-4p-16w-1s", title: "4 processes × 16 writers, 1 session", unit: "appends/s",
			prepare: processes(4, 16, wayOurs, wayNaive), goals: []goal{rateGoal(wayNaive, 8)},
		},
		{
			name: "batch-1000", title: "one append of 1,000 messages", unit: "messages/s",
			prepare: batches(1000, wayOurs, wayCopy), goals: []goal{rateGoal(wayCopy, 0.5)},
		},
		{
			name: "memory-64w-1s", title: "memory store, 64 writers, 1 session", unit: "appends/s",
			prepare: inMemory(64), goals: []goal{{subject: wayOurs, figure: 500_000}},
		},
	}
}

// readWorkloads are of reads, and of branches.
func readWorkloads() []workload {
	return []workload{
		{
			name: "read", title: "read of a session with 20 messages and 3 states", unit: "messages/s",
			prepare: reads, goals: []goal{latencyGoal(wayOurs, waySelect, 1.5)},
		},
		{
			name: "fork", title: "fork a session", unit: "forks/s", prepare: forks,
			goals: []goal{latencyGoal(wayForkLong, wayForkShort, 1.5), {subject: wayForkLong, baseline: wayForkShort, latency: true, tail: true, figure: 1.5}},
		},
		{
			name: "regenerate", title: "a turn that replaces the last answer", unit: "turns/s",
			prepare: regenerations, goals: []goal{latencyGoal(wayRegenerate, wayTurn, 1.1)},
		},
		{
			name: "rewound", title: "last 50 messages of a session that was rewound", unit: "messages/s",
			prepare: rewoundReads, goals: []goal{latencyGoal(wayRewound, wayNeverEdit, 1.5)},
		},
		{
			name: "never-rewound", title: "last 50 messages of a session, by the statement alone", unit: "messages/s",
			prepare: conditionedReads, goals: []goal{latencyGoal(wayCondition, wayWithout, 1.03)},
		},
		{
			name: "window", title: "what goes into a prompt, of 100,000 messages", unit: "messages/s",
			prepare: windows, goals: []goal{latencyGoal(wayWindow, wayLastN, 2)},
		},
		{
			name: "stream", title: "stream of a whole session", unit: "messages/s",
			prepare: streams, goals: []goal{rateGoal(waySelect, 0.8)},
		},
	}
}

// followWorkloads measure followers of sessions.
func followWorkloads() []workload {
	return []workload{
		{
			name: "follow-1000s", title: "1,000 followers of 1,000 sessions, 2,000 appends/s offered: time to a follower", unit: "messages/s",
			prepare: follows(1000, 1000, 2000, wayHere, wayAnswered, wayElsewhere, wayPoll, wayNotify),
			goals: []goal{
				latencyGoal(wayElsewhere, wayPoll, 0.05),
				{subject: wayElsewhere, baseline: wayPoll, latency: true, tail: true, figure: 0.1},
			},
		},
		{
			name: "follow-1s", title: "1,000 followers of 1 session, 100 appends/s offered: time to a follower", unit: "messages/s",
			prepare: follows(1, 1000, 100, wayElsewhere, wayPoll),
			goals:   []goal{{subject: wayElsewhere, baseline: wayPoll, latency: true, tail: true, figure: 0.1}},
		},
		{
			name: "follow-lost", title: "1,000 followers, the listener killed every second: time to a follower", unit: "messages/s",
			prepare: follows(1000, 1000, 500, wayLost, wayElsewhere),
			goals:   []goal{{subject: wayLost, baseline: wayElsewhere, latency: true, figure: 2}},
		},
		{
			name: "follow-appends", title: "16 writers, 1,000 sessions, beside 1,000 followers", unit: "appends/s",
			prepare: besideFollowers(1000, 1000, wayAlone, wayElsewhere, wayNotify),
			goals:   []goal{{subject: wayElsewhere, baseline: wayAlone, figure: 0.9}},
		},
		{
			name: "follow-storm", title: "1 follower, 20 messages/s, beside 1,000 that read 400 messages of 4 kB each: time to it", unit: "messages/s",
			prepare: besideCrowd(400), goals: []goal{{subject: wayStorm, baseline: wayCalm, latency: true, tail: true, figure: 20}},
		},
		{
			name: "follow-catch-up", title: "1,000 followers read 400 messages of 4 kB each", unit: "messages/s",
			prepare: catchUps(400, false, wayFollow, wayStream), goals: []goal{{subject: wayFollow, baseline: wayStream, figure: 0.8}},
		},
		{
			name: "follow-large", title: "1,000 followers read 4 messages with 1 MiB of metadata each", unit: "messages/s",
			prepare: catchUps(4, true, wayFollow, wayStream), goals: []goal{{subject: wayFollow, figure: 100}},
		},
	}
}

// streamWorkloads are of streams, and of what is long.
func streamWorkloads() []workload {
	return []workload{
		{
			name: "stream-parts", title: "parts of 20 bytes, 256 streams × 50 parts/s offered: time to a reader elsewhere", unit: "parts/s",
			prepare: deliversParts(256, 50),
			goals: []goal{
				latencyGoal(wayElsewhere, wayPoll, 0.05),
				{subject: wayElsewhere, baseline: wayPoll, latency: true, tail: true, figure: 0.1},
			},
		},
		{
			name: "stream-writes", title: "parts of 20 bytes, 256 writers, 256 streams", unit: "parts/s",
			prepare: writesParts(256), goals: []goal{rateGoal(wayInsert, 10)},
		},
		{
			name: "list-active", title: "list 100 of 1,000,000 sessions by last activity", unit: "sessions/s",
			prepare: listsByActivity, goals: []goal{{subject: wayOurs, figure: 50_000}}, // 100 in 2 ms
		},
		longWorkload("append-length", "append to a long session", "appends/s", appendsAtLengths, shortSession, 1.1),
		longWorkload("page-length", "page of 100 at the end of a long session", "messages/s", pagesAtLengths, 1000, 1.2),
		longWorkload("last-length", "last 100 of a long session", "messages/s", lastAtLengths, 1000, 1.2),
	}
}

func rateGoal(baseline string, figure float64) goal {
	return goal{subject: wayOurs, baseline: baseline, figure: figure}
}

func latencyGoal(subject, baseline string, figure float64) goal {
	return goal{subject: subject, baseline: baseline, latency: true, figure: figure}
}

func longWorkload(name, title, unit string, prepare func(way string, lengths ...int) preparation, short int, figure float64) workload {
	return workload{
		name: name, title: title, unit: unit, keep: true, prepare: prepare("", short, longSession),
		goals: []goal{latencyGoal(lengthWay(longSession), lengthWay(short), figure)},
	}
}

func heldSessions(count int) workload {
	return workload{
		name: fmt.Sprintf("held-%d", count), title: fmt.Sprintf("64 writers, %d of 1,000 sessions held", count), unit: "appends/s",
		prepare: besideHeld(64, 1000, count),
		goals: []goal{
			{subject: wayHeld, baseline: wayFree, figure: 0.9},
			{subject: wayHeld, baseline: wayFree, latency: true, tail: true, figure: 1.5},
		},
	}
}

func olderSnapshot(name, title, unit string, writers int, work work, aged ...string) workload {
	return workload{
		name: "snapshot-" + name, title: title + ", a snapshot open that is older", unit: unit,
		prepare: besideSnapshot(writers, work, aged...), goals: []goal{{subject: waySnapshot, baseline: wayNoSnapshot, figure: 0.9}},
	}
}

// Of these an old snapshot costs much: see docs/operations.md.
func slowed(w workload) workload {
	w.goals[0].figure = 0.1
	return w
}

func heldScope(name, title, unit string, turns bool, figure float64) workload {
	return workload{
		name: "held-scope-" + name, title: title + ", beside turns on a shared scope that is held", unit: unit,
		prepare: besideHeldScope(16, turns), goals: []goal{{subject: wayScopeHeld, baseline: wayScopeFree, figure: figure}},
	}
}

// appendWorkload compares the library with other ways of appending one message of
// the usual size.
func appendWorkload(writers, sessions int, ways []string, goals ...goal) workload {
	counted := func(count int, what string) string {
		if count != 1 {
			what += "s"
		}
		return grouped(float64(count)) + " " + what
	}
	return workload{
		name:  fmt.Sprintf("append-%dw-%ds", writers, sessions),
		title: counted(writers, "writer") + ", " + counted(sessions, "session"), unit: "appends/s",
		prepare: appends(writers, sessions, append([]string{wayOurs}, ways...)...), goals: goals,
	}
}

const (
	shortSession = 100
	longSession  = 1_000_000
)

// shrunk returns the real length of a prepared session, which is less in a quick
// run.
func (l *lab) shrunk(length int) int {
	if l.options.Quick {
		return min(length, 2000)
	}
	return length
}

func lengthWay(length int) string { return fmt.Sprintf("length %d", length) }

// appending returns a runner that appends single messages.
func appending(way appender, writers int, sessions []repo.ID, messages []repo.NewMessage) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		return drive(ctx, writers, duration, func(ctx context.Context, _ int) (int, error) {
			return len(messages), way(ctx, sessions[rand.N(len(sessions))], messages)
		})
	}
}

// appends compares ways of appending one message of the usual size.
func appends(writers, sessions int, ways ...string) preparation {
	return appendsOf(writers, sessions, batch(1, messageSize), ways...)
}

// batches compares ways of appending many messages at once with one writer.
func batches(count int, ways ...string) preparation {
	return appendsOf(1, 1, batch(count, messageSize), ways...)
}

func appendsOf(writers, sessions int, messages []repo.NewMessage, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		cells := make([]cell, len(ways))
		for i, way := range ways {
			ids, err := l.sessions(ctx, sessions)
			if err != nil {
				return nil, err
			}
			cells[i] = cell{way: way, run: appending(l.appender(way), writers, ids, messages)}
		}
		return cells, nil
	}
}

// creates compares creating a session with appending a message.
func creates(ctx context.Context, l *lab) ([]cell, error) {
	cells, err := appends(1, 1, wayOurs)(ctx, l)
	return append(cells, cell{way: wayCreate, run: alone(func(ctx context.Context, _ int) (int, error) {
		_, err := l.store.Sessions().Create(ctx, repo.NewSession{Actor: "bench"})
		return 1, err
	})}), err
}

// inMemory appends to the memory store. Each part has a new store, because a store
// keeps all its messages.
func inMemory(writers int) preparation {
	return func(context.Context, *lab) ([]cell, error) {
		messages := batch(1, messageSize)
		return []cell{{way: wayOurs, run: func(ctx context.Context, duration time.Duration) (sample, error) {
			store := memory.New()
			defer func() { _ = store.Close() }()
			ids, err := createSessions(ctx, store, 1)
			if err != nil {
				return sample{}, err
			}
			return appending(appendTo(store), writers, ids, messages)(ctx, duration)
		}}}, nil
	}
}

// streams compares ways of reading a whole session.
func streams(ctx context.Context, l *lab) ([]cell, error) {
	id, err := l.ofLength(ctx, l.shrunk(50_000))
	if err != nil {
		return nil, err
	}
	return []cell{
		{way: wayOurs, run: alone(func(ctx context.Context, _ int) (rows int, err error) {
			for _, err := range l.store.Sessions().Messages(ctx, id, 0) {
				if err != nil {
					return rows, err
				}
				rows++
			}
			return rows, nil
		})},
		{way: waySelect, run: alone(func(ctx context.Context, _ int) (rows int, err error) {
			return rows, selecting(ctx, l.baselines, id, func(repo.Message) { rows++ })
		})},
	}, nil
}

// reads compares a Read of a session, with its state and two shared ones, with a SELECT of
// its messages.
func reads(ctx context.Context, l *lab) ([]cell, error) {
	const messages, keys = 20, 4
	ids, err := l.sessions(ctx, 1)
	if err != nil {
		return nil, err
	}
	if _, err := l.store.Sessions().Append(ctx, ids[0], batch(messages, messageSize)...); err != nil {
		return nil, err
	}
	ask := repo.ReadSessions{IDs: ids, Last: messages, State: true, Scopes: []string{"app", "user"}}
	var changes []repo.StateChange
	for _, scope := range []repo.Scope{{SessionID: ids[0]}, {Name: "app"}, {Name: "user"}} {
		for key := range keys {
			changes = append(changes, repo.StateChange{Scope: scope, Key: fmt.Sprint("key ", key), Value: []byte(`"value"`)})
		}
	}
	if _, err := l.store.State().Change(ctx, changes); err != nil {
		return nil, err
	}
	if _, err := l.pool.Exec(ctx, "VACUUM (ANALYZE) sessions, session_counters, messages, state_scopes, state_values"); err != nil {
		return nil, err
	}
	return []cell{
		{way: wayOurs, run: alone(func(ctx context.Context, _ int) (int, error) {
			snapshot, err := l.store.Sessions().Read(ctx, ask)
			if err != nil {
				return 0, err
			}
			return len(snapshot.Sessions[0].Messages), nil
		})},
		{way: waySelect, run: alone(func(ctx context.Context, _ int) (rows int, err error) {
			return rows, selecting(ctx, l.baselines, ids[0], func(repo.Message) { rows++ })
		})},
	}, nil
}

// listsByActivity reads the first page of many sessions by last activity.
func listsByActivity(ctx context.Context, l *lab) ([]cell, error) {
	if _, err := l.pool.Exec(ctx, fillActivity, l.shrunk(longSession)); err != nil {
		return nil, fmt.Errorf("fill a list: %w", err)
	}
	if _, err := l.pool.Exec(ctx, fillActivityCounters); err != nil {
		return nil, fmt.Errorf("fill a list: %w", err)
	}
	// Otherwise autovacuum would do so during the measurements.
	if _, err := l.pool.Exec(ctx, "VACUUM (ANALYZE) sessions, session_counters, session_activity"); err != nil {
		return nil, err
	}
	return []cell{{way: wayOurs, run: alone(func(ctx context.Context, _ int) (int, error) {
		page, err := l.store.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, ByActivity: true}, repo.Page{Limit: pageSize})
		return len(page.Items), err
	})}}, nil
}

// alone has one reader repeat an operation.
func alone(read operation) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		return drive(ctx, 1, duration, read)
	}
}

// appendsAtLengths appends to sessions of several lengths.
func appendsAtLengths(way string, lengths ...int) preparation {
	return atLengths(way, lengths, func(l *lab, id repo.ID, _ int) runner {
		return appending(l.appender(wayOurs), 1, []repo.ID{id}, batch(1, messageSize))
	})
}

const pageSize = 100

// pagesAtLengths reads the last page of the session.
func pagesAtLengths(way string, lengths ...int) preparation {
	return atLengths(way, lengths, func(l *lab, id repo.ID, length int) runner {
		return paging(func(ctx context.Context) ([]repo.Message, error) {
			return l.store.Sessions().MessagesFrom(ctx, id, int64(length-pageSize), pageSize)
		})
	})
}

// lastAtLengths reads the last messages, without knowing the length.
func lastAtLengths(way string, lengths ...int) preparation {
	return atLengths(way, lengths, func(l *lab, id repo.ID, _ int) runner {
		return paging(func(ctx context.Context) ([]repo.Message, error) {
			return l.store.Sessions().LastMessages(ctx, id, pageSize)
		})
	})
}

func paging(page func(context.Context) ([]repo.Message, error)) runner {
	return alone(func(ctx context.Context, _ int) (int, error) {
		messages, err := page(ctx)
		if err == nil && len(messages) != pageSize {
			err = fmt.Errorf("a page of %d messages", len(messages))
		}
		return len(messages), err
	})
}

// atLengths makes a cell for each length, named by it or, in a curve, by way.
func atLengths(way string, lengths []int, run func(*lab, repo.ID, int) runner) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		var cells []cell
		for _, length := range lengths {
			id, err := l.ofLength(ctx, l.shrunk(length))
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell{way: cmp.Or(way, lengthWay(length)), x: float64(length), run: run(l, id, l.shrunk(length))})
		}
		return cells, nil
	}
}
