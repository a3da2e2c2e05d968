package pgtest

import "runtime/debug"

// Raced reports whether this program runs with the race detector, which makes it several
// times slower.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}
