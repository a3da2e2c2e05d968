// Package provider is a payment provider that fails on purpose, for the example and its test. It keeps everything in memory.
package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fee is what the provider charges for each refund, in cents.
const Fee = 25

// Order is what the provider is asked to do.
type Order struct {
	Key   string `json:"key"` // the idempotency key, which also names the refund in questions
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// Refund is a refund that was made.
type Refund struct {
	Order

	ID   int       `json:"id"`
	Fee  int64     `json:"fee_cents"`
	Made time.Time `json:"made"`
}

// Provider is an HTTP handler. The first word of an order says what goes wrong when it is asked to refund it:
//
//	refused  it never refunds this order
//	fails    it refunds it, and answers 500
//	closes   it refunds it, and closes the connection
//	loses    it closes the connection, and does not refund it
//	late     it refunds it, and answers when the caller is gone
//
// All but refused go wrong the first time only.
type Provider struct {
	// HonoursKeys: a request whose key is known is answered with the refund that it made, and makes no other one.
	HonoursKeys bool
	// At, if set, is called with "before" and "after" a refund is made.
	At func(moment string)

	mu      sync.Mutex
	refunds []Refund
	asked   map[string]int
}

// ServeHTTP implements http.Handler: POST /refunds makes a refund, GET /refunds lists them, and GET /refunds/KEY returns the
// first one with a key.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /refunds", p.refund)
	mux.HandleFunc("GET /refunds", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(p.Refunds()) })
	mux.HandleFunc("GET /refunds/{key}", func(w http.ResponseWriter, r *http.Request) {
		for _, made := range p.Refunds() {
			if made.Key == r.PathValue("key") {
				_ = json.NewEncoder(w).Encode(made)
				return
			}
		}
		http.NotFound(w, r)
	})
	mux.ServeHTTP(w, r)
}

// Refunds returns all refunds that were made.
func (p *Provider) Refunds() []Refund {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Refund{}, p.refunds...)
}

func (p *Provider) refund(w http.ResponseWriter, r *http.Request) {
	var order Order
	if json.NewDecoder(r.Body).Decode(&order) != nil || order.Cents <= 0 {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	trouble := p.troubleOf(order)
	p.at("before")
	switch trouble {
	case "refused":
		http.Error(w, "this order cannot be refunded", http.StatusPaymentRequired)
		return
	case "loses":
		panic(http.ErrAbortHandler)
	}
	made := p.make(order)
	p.at("after")
	switch trouble {
	case "fails":
		http.Error(w, "something went wrong", http.StatusInternalServerError)
		return
	case "closes":
		panic(http.ErrAbortHandler)
	case "late":
		<-r.Context().Done()
	}
	_ = json.NewEncoder(w).Encode(made)
}

// troubleOf returns what goes wrong with an order this time.
func (p *Provider) troubleOf(order Order) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[order.Order]++
	word, _, _ := strings.Cut(order.Order, " ")
	if p.asked[order.Order] > 1 && word != "refused" {
		return ""
	}
	return word
}

func (p *Provider) make(order Order) Refund {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, made := range p.refunds {
		if p.HonoursKeys && made.Key == order.Key {
			return made
		}
	}
	made := Refund{Order: order, ID: len(p.refunds) + 1, Fee: Fee, Made: time.Now().UTC()}
	p.refunds = append(p.refunds, made)
	return made
}

func (p *Provider) at(moment string) {
	if p.At != nil {
		p.At(moment)
	}
}
