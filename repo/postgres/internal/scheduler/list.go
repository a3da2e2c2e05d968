package scheduler

// list is a doubly linked list whose nodes are embedded in the values, so that a value
// can be removed without a search.
type list[T any] struct {
	first, last *node[T]
	length      int
}

// node is a value's place in a list. The zero value is in no list.
type node[T any] struct {
	in         *list[T]
	prev, next *node[T]
	value      T
}

func (l *list[T]) pushBack(n *node[T]) { l.insert(l.last, n, nil) }

func (l *list[T]) pushFront(n *node[T]) { l.insert(nil, n, l.first) }

func (l *list[T]) insert(before, n, after *node[T]) {
	n.in = l
	l.join(before, n)
	l.join(n, after)
	l.length++
}

// join makes two nodes neighbours. A nil node stands for the list's end.
func (l *list[T]) join(before, after *node[T]) {
	if before == nil {
		l.first = after
	} else {
		before.next = after
	}
	if after == nil {
		l.last = before
	} else {
		after.prev = before
	}
}

// remove removes the node from its list, if it is in one.
func (n *node[T]) remove() {
	l := n.in
	if l == nil {
		return
	}
	l.join(n.prev, n.next)
	l.length--
	n.in, n.prev, n.next = nil, nil, nil
}
