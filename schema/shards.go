package schema

import (
	"cmp"
	"fmt"
)

// MaxShards bounds the schemas over which a store is spread.
const MaxShards = 256

// Shards returns the names of the schemas over which a store is spread: name (empty: agentstore) with _00, _01, and
// so on. With less than two there is one, name itself.
func Shards(name string, shards int) []string {
	if shards < 2 {
		return []string{name}
	}
	names := make([]string, shards)
	for i := range names {
		names[i] = fmt.Sprintf("%s_%02d", cmp.Or(name, "agentstore"), i)
	}
	return names
}
