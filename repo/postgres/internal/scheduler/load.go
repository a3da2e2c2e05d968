package scheduler

import (
	"os"
	"strconv"
)

var mode, _ = strconv.Atoi(os.Getenv("SCHED_GROUPS"))

// mayGroup reports whether another group may begin.
func (s *Scheduler[K, I]) mayGroup() bool {
	if mode > 0 {
		return s.groups < min(mode, s.config.Groups)
	}
	return s.groups < s.config.Groups
}

// groupSize is how large the next group may be.
func (s *Scheduler[K, I]) groupSize() Size { return Size{s.config.GroupRows, s.config.GroupBytes} }
