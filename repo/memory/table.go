package memory

import "iter"

// table has rows by key. The table of a transaction is an overlay: it has the rows
// that the transaction changed, and reads the others from its base, the committed
// table.
//
// A stored row never changes, unless it is nested: an update replaces it. So readers may
// use rows after the unlock.
type table[K comparable, V any] struct {
	// rows has nil in an overlay for a row that the transaction removed.
	rows map[K]*V
	// base is nil for a table that is not an overlay.
	base *table[K, V]
}

func (t *table[K, V]) overlay() table[K, V] { return table[K, V]{base: t} }

// over makes an empty table an overlay of one of its kind.
func (t *table[K, V]) over(base any) { *t = base.(*table[K, V]).overlay() } //nolint:forcetypeassert // it is

// get returns nil if there is no such row.
func (t *table[K, V]) get(key K) *V {
	row, changed := t.rows[key]
	if changed || t.base == nil {
		return row
	}
	return t.base.get(key)
}

func (t *table[K, V]) put(key K, row *V) {
	if t.rows == nil {
		t.rows = map[K]*V{}
	}
	t.rows[key] = row
}

func (t *table[K, V]) remove(key K) {
	if t.base == nil {
		delete(t.rows, key)
	} else {
		t.put(key, nil)
	}
}

// all yields the rows, in no order.
func (t *table[K, V]) all() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for key, row := range t.rows {
			if row != nil && !yield(key, row) {
				return
			}
		}
		if t.base == nil {
			return
		}
		for key, row := range t.base.all() {
			if _, changed := t.rows[key]; !changed && !yield(key, row) {
				return
			}
		}
	}
}

func (t *table[K, V]) isEmpty() bool {
	for range t.all() {
		return false
	}
	return true
}

// where returns the rows that match, in no order.
func (t *table[K, V]) where(matches func(*V) bool) (found []*V) {
	for _, row := range t.all() {
		if matches(row) {
			found = append(found, row)
		}
	}
	return found
}

// named returns the row that a key of an index names. Nil: there is none.
func named[K, ID comparable, V any](index *table[K, ID], key K, rows *table[ID, V]) *V {
	if id := index.get(key); id != nil {
		return rows.get(*id)
	}
	return nil
}

// unname takes a key from an index, unless it names another row.
func unname[K, ID comparable](index *table[K, ID], key K, of ID) {
	if id := index.get(key); id != nil && *id == of {
		index.remove(key)
	}
}

// nested is a row that has tables of its own. It is changed in place; a transaction changes an
// overlay, which it commits.
type nested[V any] interface {
	*V
	overlay() *V
	commit()
}

// edit returns a row to be changed. Nil: there is none.
func edit[K comparable, V any, Row nested[V]](t *table[K, V], key K) *V {
	row := t.get(key)
	if row != nil && t.base != nil && t.rows[key] == nil {
		row = Row(row).overlay()
		t.put(key, row)
	}
	return row
}

// commit merges an overlay into its base, which becomes the table.
func (t *table[K, V]) commit() {
	if t.base == nil {
		return
	}
	for key, row := range t.rows {
		if row == nil {
			t.base.remove(key)
			continue
		}
		if inner, is := any(row).(interface{ commit() }); is {
			inner.commit()
		}
		t.base.put(key, row)
	}
	*t = *t.base
}
