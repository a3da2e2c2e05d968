package files

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
)

// memory is how much a process had at most.
type memory struct{ Heap, Process uint64 }

func (m *memory) look() {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	m.Heap = max(m.Heap, now.HeapInuse)
	status, err := os.ReadFile("/proc/self/status")
	if found := peak.FindSubmatch(status); err == nil && found != nil {
		kib, _ := strconv.ParseUint(string(found[1]), 10, 64)
		m.Process = kib << 10
	}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
