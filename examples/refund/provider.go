package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
)

// payment is what the provider is sent, and what it answers.
type payment struct {
	Key    string `json:"key,omitempty"`
	Amount int64  `json:"amount"`
	Number int    `json:"number,omitempty"`
}

// pay sends a payment to the provider.
func pay(ctx context.Context, provider, key string, amount int64) (json.RawMessage, error) {
	text, err := json.Marshal(payment{Key: key, Amount: amount})
	if err != nil {
		return nil, effect.NotSent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+"/payments", bytes.NewReader(text))
	if err != nil {
		return nil, effect.NotSent(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err // it may have arrived
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusPaymentRequired:
		return nil, effect.Failed(errors.New("the provider refuses the payment"))
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the provider says %s", response.Status)
	}
	return answer, nil
}

// provide is a payment provider that honours keys. Of three payments, one is answered by a failure although it was made, one is not
// answered at all, and one is answered as it should be.
func provide(ctx context.Context, addr string) error {
	var mu sync.Mutex
	made, requests := map[string]payment{}, 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		var p payment
		if json.NewDecoder(r.Body).Decode(&p) != nil || p.Key == "" {
			http.Error(w, "no payment", http.StatusBadRequest)
			return
		}
		if p.Amount <= 0 {
			http.Error(w, "no amount", http.StatusPaymentRequired)
			return
		}
		mu.Lock()
		before, again := made[p.Key]
		if !again {
			before = payment{Amount: p.Amount, Number: len(made) + 1}
			made[p.Key] = before
		}
		requests++
		trouble := requests % 3
		mu.Unlock()
		switch trouble {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_ = json.NewEncoder(w).Encode(before)
		}
	})
	mux.HandleFunc("GET /payments", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(made)
	})
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Minute}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.Serve(listener)
}
