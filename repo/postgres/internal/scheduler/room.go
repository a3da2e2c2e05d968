package scheduler

// room bounds the waiting items. Callers whose item does not fit wait for room, or
// knock: their keys take turns, and the items of one key keep their order.
type room[K comparable, I any] struct {
	limits             Limits
	items, rows, bytes int
	doors              list[*queue[K, I]]
	callers            int
}

func (r *room[K, I]) fits(size Size) bool {
	return r.items == 0 || r.items < r.limits.Items && r.rows+size.Rows <= r.limits.Rows &&
		r.bytes+size.Bytes <= r.limits.Bytes
}

// enter puts a new task into its queue, or lets it wait for room. It reports false if
// too many callers wait for room.
func (r *room[K, I]) enter(q *queue[K, I], t *Task[K, I]) bool {
	if r.doors.length == 0 && r.fits(t.size) {
		r.add(q, t)
		return true
	}
	if r.callers >= r.limits.Callers {
		return false
	}
	r.callers++
	q.knocking.pushBack(&t.place)
	if q.door.in == nil {
		r.doors.pushBack(&q.door)
	}
	return true
}

func (r *room[K, I]) add(q *queue[K, I], t *Task[K, I]) {
	q.tasks.pushBack(&t.place)
	r.count(q, 1, t.size)
}

// count adds an item (1) or subtracts it (-1).
func (r *room[K, I]) count(q *queue[K, I], sign int, size Size) {
	r.items += sign
	r.rows += sign * size.Rows
	r.bytes += sign * size.Bytes
	q.size.Rows += sign * size.Rows
	q.size.Bytes += sign * size.Bytes
}

// leave removes a task from its queue, or from the tasks that wait for room.
func (r *room[K, I]) leave(q *queue[K, I], t *Task[K, I]) {
	if t.place.in == &q.knocking {
		t.place.remove()
		r.callers--
		if q.knocking.length == 0 {
			q.door.remove()
		}
		return
	}
	t.place.remove()
	r.count(q, -1, t.size)
}

// move moves a queue with all its tasks to another room, which may exceed its limits
// then.
func (s *Scheduler[K, I]) move(q *queue[K, I], to *room[K, I]) {
	from := q.room
	if from == to {
		return
	}
	from.items, to.items = from.items-q.tasks.length, to.items+q.tasks.length
	from.rows, to.rows = from.rows-q.size.Rows, to.rows+q.size.Rows
	from.bytes, to.bytes = from.bytes-q.size.Bytes, to.bytes+q.size.Bytes
	from.callers, to.callers = from.callers-q.knocking.length, to.callers+q.knocking.length
	if q.door.in != nil {
		q.door.remove()
		to.doors.pushBack(&q.door)
	}
	q.room = to
	s.refill(from)
	s.refill(to)
}

// refill lets in tasks that wait for room, while there is some.
func (s *Scheduler[K, I]) refill(r *room[K, I]) {
	for r.doors.length > 0 {
		q := r.doors.first.value
		t := q.knocking.first.value
		if !r.fits(t.size) {
			return
		}
		r.leave(q, t)
		r.add(q, t)
		if q.knocking.length > 0 {
			q.door.remove()
			r.doors.pushBack(&q.door)
		}
		s.ready(q)
	}
}
