package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Stats says what this process does on its pool, which all stores on it share.
type Stats struct {
	Pool PoolStats
	// Committers are the used ones, by Kind.
	Committers []CommitterStats
	// Followers counts the loops of this process that follow something, and its waiting callers.
	Followers FollowerStats
	// Listening: the process hears of what others commit. Otherwise, while there are followers, it polls.
	Listening bool
	// Again counts the further attempts of operations and groups, after an error that may pass.
	Again int64
}

// PoolStats says how the pool's connections are used.
type PoolStats struct {
	Max, Open, Acquired int
	// Waits counts the operations that waited for a connection, for Waited in all.
	Waits  int64
	Waited time.Duration
}

// CommitterStats says what waits to be committed together.
type CommitterStats struct {
	Kind string // as of observe.Group
	// Waiting is the number of writes that no group carries, and Locked the number of these of which a row was found
	// locked.
	Waiting, Locked int
	// Groups are under way, of Begun so far.
	Groups int
	Begun  int64
}

// FollowerStats counts loops, and calls that wait.
type FollowerStats struct {
	Sessions, Streams int // loops of Sessions.Follow, of Streams.Follow and FollowSession
	Behind            int // the ones that are being read for, because they catch up
	// Lag is for how long the follower has been behind that is behind longest. A new one is behind until it has read
	// what there is.
	Lag            time.Duration
	Claims, Leases int // calls that wait for a plan, and for a lease or its end
}

// Stats sends nothing to the database.
func (s *Store) Stats() Stats {
	pool, live := s.exec.conns.Pool.Stat(), s.exec.live
	stats := Stats{
		Pool: PoolStats{
			Max: int(pool.MaxConns()), Open: int(pool.TotalConns()), Acquired: int(pool.AcquiredConns()),
			Waits: pool.EmptyAcquireCount(), Waited: pool.EmptyAcquireWaitTime(),
		},
		Listening: live.listening.Load(),
		Again:     s.exec.conns.Again.Load(),
	}
	s.exec.committers.made.Range(func(_, made any) bool {
		if c, is := made.(interface {
			Stats() (string, scheduler.Stats)
		}); is {
			kind, now := c.Stats()
			stats.Committers = append(stats.Committers, CommitterStats{kind, now.Waiting, now.Locked, now.Batches, now.Groups})
		}
		return true
	})
	slices.SortFunc(stats.Committers, func(a, b CommitterStats) int { return cmp.Compare(a.Kind, b.Kind) })
	sessions, behind, lag := live.messages.Followers()
	streams, streamsBehind, streamsLag := live.parts.Followers()
	stats.Followers = FollowerStats{
		Sessions: sessions, Streams: streams + live.streams.Waiting(), Behind: behind + streamsBehind,
		Lag:    max(lag, streamsLag),
		Claims: live.claims.Waiting(), Leases: live.free.Waiting() + live.ended.Waiting(),
	}
	return stats
}

// Add adds what a store on another pool does.
func (s *Stats) Add(other Stats) {
	p, more := &s.Pool, other.Pool
	p.Max, p.Open, p.Acquired, p.Waits, p.Waited = p.Max+more.Max, p.Open+more.Open, p.Acquired+more.Acquired,
		p.Waits+more.Waits, p.Waited+more.Waited
	s.Again += other.Again
	for _, more := range other.Committers {
		i := slices.IndexFunc(s.Committers, func(c CommitterStats) bool { return c.Kind == more.Kind })
		if i < 0 {
			s.Committers = append(s.Committers, more)
			continue
		}
		c := &s.Committers[i]
		c.Waiting, c.Locked, c.Groups, c.Begun = c.Waiting+more.Waiting, c.Locked+more.Locked, c.Groups+more.Groups,
			c.Begun+more.Begun
	}
	slices.SortFunc(s.Committers, func(a, b CommitterStats) int { return cmp.Compare(a.Kind, b.Kind) })
	f, followers := &s.Followers, other.Followers
	f.Sessions, f.Streams, f.Behind = f.Sessions+followers.Sessions, f.Streams+followers.Streams, f.Behind+followers.Behind
	f.Lag, f.Claims, f.Leases = max(f.Lag, followers.Lag), f.Claims+followers.Claims, f.Leases+followers.Leases
	s.Listening = s.Listening && other.Listening
}
