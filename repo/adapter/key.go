package adapter

import "strings"

var keyUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

// SplitKey returns the parts that repo.JoinKey joined.
func SplitKey(key string) []string {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		parts[i] = keyUnescaper.Replace(part)
	}
	return parts
}
