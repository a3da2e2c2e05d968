package budgettest

import (
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

func (w *world) session() repo.ID {
	w.Helper()
	session, err := w.store.Sessions().Create(w.Context(), repo.NewSession{})
	if err != nil {
		w.Fatal(err)
	}
	return session.ID
}

func turn(session repo.ID, id, content string) repo.Turn {
	return repo.Turn{
		SessionID: session, ID: id, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: content}},
		State: []repo.StateChange{{Key: "turns", Op: repo.StateIncrement, By: 1}},
	}
}

func (w *world) messages(session repo.ID, want int) {
	w.Helper()
	if got, err := w.store.Sessions().LastMessages(w.Context(), session, 100); err != nil || len(got) != want {
		w.Errorf("%d messages, want %d: %v", len(got), want, err)
	}
}

func (w *world) settleTurn(t repo.Turn, r budget.Reservation, use budget.Use, want budget.Settled) {
	w.Helper()
	if _, settled, err := w.SettleTurn(w.Context(), t, r, use); err != nil || settled != want {
		w.Errorf("%+v, %v; want %+v", settled, err, want)
	}
}

// A turn and its reservation, or its settlement, are stored together or not at all.
func testTurns(w *world) {
	id, limit := w.session(), tokens("tenant", 10)
	request := budget.Request{ID: "1", Limits: []budget.Limit{limit}, Most: amount(0, 8)}
	question := turn(id, "question", "q")
	_, r, err := w.ReserveTurn(w.Context(), question, request)
	if err != nil {
		w.Fatal(err)
	}
	w.hasUsed(limit, 8)
	request.ID = "2"
	_, _, err = w.ReserveTurn(w.Context(), turn(id, "question 2", "q"), request)
	w.exceeded(err, limit, 8, 8)
	w.messages(id, 1)
	refused := turn(id, "answer", "a")
	refused.Expected = new(int64) // which is 1
	if _, _, err := w.SettleTurn(w.Context(), refused, r, used(0, 3)); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	w.hasUsed(limit, 8)
	_, _, err = w.SettleTurn(w.Context(), turn(id, "answer", "a"), r, used(0, 11))
	w.exceeded(err, limit, 8, 3)
	w.messages(id, 1)
	w.settleTurn(turn(id, "answer", "a"), r, used(0, 3), budget.Settled{})
	w.messages(id, 2)
	w.hasUsed(limit, 3)
	if len(question.State) != 1 {
		w.Error("the caller's turn was changed")
	}
}

// Turns that are repeated count once.
func testTurnsAgain(w *world) {
	id, limit := w.session(), tokens("tenant", 20)
	request := budget.Request{ID: "1", Limits: []budget.Limit{limit}, Most: amount(0, 8)}
	_, r, err := w.ReserveTurn(w.Context(), turn(id, "question", "q"), request)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.store.Sessions().Append(w.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "more"}); err != nil {
		w.Fatal(err)
	}
	w.reserve("other", amount(0, 1), limit) // the scope has another version now
	existing := turn(id, "question", "q")
	existing.Existing = true
	other := request
	other.Limits = []budget.Limit{tokens("tenant", 5)}
	var again budget.Reservation
	for i, t := range []repo.Turn{turn(id, "question", "q"), turn(id, "question", "q"), existing} {
		if i == 1 {
			request, other = other, request
		}
		appended, repeated, err := w.ReserveTurn(w.Context(), t, request)
		if again = repeated; err != nil || !appended.Repeated || text(again) != text(r) {
			w.Errorf("%d: %s, %v, want %s", i, text(again), err, text(r))
		}
	}
	var exists *repo.ExistsError
	if _, _, err := w.ReserveTurn(w.Context(), turn(id, "question", "other"), request); !errors.As(err, &exists) || exists.Kind != "turn" {
		w.Error(err)
	}
	w.settleTurn(turn(id, "answer", "a"), again, used(0, 3), budget.Settled{})
	w.settleTurn(turn(id, "answer", "a"), r, used(0, 3), budget.Settled{Repeated: true})
	w.settleTurn(turn(id, "answer 2", "a"), r, used(0, 3), budget.Settled{Repeated: true}) // which is stored without
	w.settleTurn(turn(id, "answer 2", "a"), r, used(0, 3), budget.Settled{Repeated: true})
	w.messages(id, 4)
	w.hasUsed(limit, 4)
	appended, _, err := w.ReserveTurn(w.Context(), existing, request)
	if !errors.Is(err, repo.ErrNotFound) || len(appended.Messages) != 1 {
		w.Errorf("%+v, %v", appended, err)
	}
	if _, _, err := w.SettleTurn(w.Context(), turn(id, "answer", "other"), r, used(0, 3)); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	// It is reserved, but not by this turn, which would be lost.
	if _, _, err := w.ReserveTurn(w.Context(), turn(id, "question 2", "q"), budget.Request{ID: "other", Limits: request.Limits, Most: amount(0, 1), Life: time.Hour}); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	w.messages(id, 4)
	w.hasUsed(limit, 4)
}

// The answer comes after its reservation has expired: it is stored, and counted.
func testLateTurns(w *world) {
	id, limit := w.session(), tokens("tenant", 20)
	r := w.reserve("1", amount(0, 8), limit)
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant")
	w.settleTurn(turn(id, "answer", "a"), r, used(0, 3), budget.Settled{Late: true})
	w.settleTurn(turn(id, "answer", "a"), r, used(0, 3), budget.Settled{Repeated: true})
	w.settle(r, used(0, 3), budget.Settled{Repeated: true})
	w.messages(id, 1)
	w.hasUsed(limit, 3)
}
