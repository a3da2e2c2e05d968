package memory

// shelf is a table of values that never change once they are stored: an update
// stores another value. That is what lets a unit of work, and readers after the
// unlock, hold on to them.
type shelf[K comparable, V any] interface {
	// get returns nil for what is not there.
	get(key K) *V
	put(key K, value *V)
	remove(key K)
	// each visits all values, in no order.
	each(visit func(K, *V))
}

// base is the committed state of a shelf.
type base[K comparable, V any] map[K]*V

func (b base[K, V]) get(key K) *V        { return b[key] }
func (b base[K, V]) put(key K, value *V) { b[key] = value }
func (b base[K, V]) remove(key K)        { delete(b, key) }
func (b base[K, V]) each(visit func(K, *V)) {
	for key, value := range b {
		visit(key, value)
	}
}

// overlay is a unit of work's: its changes, over the committed state. A nil among
// them was removed.
type overlay[K comparable, V any] struct {
	base    base[K, V]
	changes map[K]*V
}

func newOverlay[K comparable, V any](b base[K, V]) *overlay[K, V] {
	return &overlay[K, V]{base: b, changes: map[K]*V{}}
}

func (o *overlay[K, V]) get(key K) *V {
	if value, changed := o.changes[key]; changed {
		return value
	}
	return o.base[key]
}

func (o *overlay[K, V]) put(key K, value *V) { o.changes[key] = value }
func (o *overlay[K, V]) remove(key K)        { o.changes[key] = nil }

func (o *overlay[K, V]) each(visit func(K, *V)) {
	for key, value := range o.base {
		if _, changed := o.changes[key]; !changed {
			visit(key, value)
		}
	}
	for key, value := range o.changes {
		if value != nil {
			visit(key, value)
		}
	}
}

// commit makes the changes the committed state.
func (o *overlay[K, V]) commit() {
	for key, value := range o.changes {
		if value == nil {
			delete(o.base, key)
		} else {
			o.base[key] = value
		}
	}
}
