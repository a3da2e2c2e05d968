package scheduler

// list is a doubly linked list whose nodes stand in the values themselves, so
// that a value leaves from the middle in one step.
type list[T any] struct {
	first, last *node[T]
	length      int
}

// node is a value's place in a list. In no list, its zero value is ready.
type node[T any] struct {
	in         *list[T]
	prev, next *node[T]
	value      T
}

func (l *list[T]) pushBack(n *node[T]) {
	n.in, n.prev, n.next = l, l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.length++
}

func (l *list[T]) pushFront(n *node[T]) {
	n.in, n.prev, n.next = l, nil, l.first
	if l.first == nil {
		l.last = n
	} else {
		l.first.prev = n
	}
	l.first = n
	l.length++
}

// remove takes the node out of the list that it is in, if any.
func (n *node[T]) remove() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	l.length--
	n.in, n.prev, n.next = nil, nil, nil
}
