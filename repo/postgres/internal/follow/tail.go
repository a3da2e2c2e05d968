package follow

// The bounds of a tail.
const (
	tailItems = 256
	tailBytes = 256 << 10
	// tailPolls is how many polls a tail outlives that nothing was added to.
	tailPolls = 2
)

// tail is the latest items of a log that were read. It serves followers that are a little
// behind the first one, so that an item is read once for all.
type tail[I any] struct {
	first int64 // sequence
	items []I
	bytes int
	polls int // since something was added
}

// end is the sequence after the last item.
func (t *tail[I]) end() int64 { return t.first + int64(len(t.items)) }

// from returns the items from a sequence on, if it has any.
func (t *tail[I]) from(sequence int64) []I {
	at := sequence - t.first
	if at < 0 || at >= int64(len(t.items)) {
		return nil
	}
	// Its capacity ends here: what is added later is not written past it.
	return t.items[at:len(t.items):len(t.items)]
}

// extend adds what was read from a sequence on. If that does not follow the items, it
// replaces them, unless it is older.
func (t *tail[I]) extend(from int64, found *Found[I], size func(I) int) {
	if len(found.Items) == 0 {
		return
	}
	end := t.end()
	switch {
	case len(t.items) > 0 && from+int64(len(found.Items)) <= end:
		return
	case len(t.items) == 0 || from != end:
		*t = tail[I]{first: from}
	}
	for _, item := range found.Items {
		t.items = append(t.items, item)
		t.bytes += size(item)
	}
	t.polls = 0
	t.trim(size)
}

// trim drops the first items while there are too many.
func (t *tail[I]) trim(size func(I) int) {
	drop := 0
	for len(t.items)-drop > tailItems || t.bytes > tailBytes && drop < len(t.items) {
		t.bytes -= size(t.items[drop])
		drop++
	}
	if drop > 0 {
		// Copied, so that the dropped items are freed.
		t.first += int64(drop)
		t.items = append([]I(nil), t.items[drop:]...)
	}
}

// age drops the items if nothing was added for a while.
func (t *tail[I]) age() {
	if len(t.items) == 0 {
		return
	}
	if t.polls++; t.polls >= tailPolls {
		*t = tail[I]{}
	}
}
