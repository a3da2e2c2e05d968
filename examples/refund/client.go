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
	"time"

	"github.com/seed-df90f812/agentstore/effect"
)

// client calls the provider.
type client struct {
	url string
	// honoursKey is how long the provider honours keys. Zero: it does not.
	honoursKey time.Duration
}

// refund has the provider make a refund, and returns its receipt.
func (c client) refund(ctx context.Context, key, order string, cents int64) (json.RawMessage, error) {
	text, err := json.Marshal(map[string]any{"key": key, "order": order, "cents": cents})
	if err != nil {
		return nil, effect.NotSent(err)
	}
	answer, status, err := c.do(ctx, http.MethodPost, "/refunds", text)
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case dial != nil && dial.Op == "dial":
		return nil, effect.NotSent(err) // there was no connection
	case err != nil:
		return nil, err // it may have arrived
	case status == http.StatusPaymentRequired:
		return nil, effect.Failed(errors.New("the provider refuses it"))
	case status != http.StatusOK:
		return nil, fmt.Errorf("the provider answers %d", status) // it may have been done
	}
	return answer, checkReceipt(answer)
}

// find looks for a refund whose answer was lost. A refund that is not there may still be on its way.
func (c client) find(ctx context.Context, e effect.Effect) (effect.Answer, error) {
	answer, status, err := c.do(ctx, http.MethodGet, "/refunds/"+e.IdempotencyKey, nil)
	switch {
	case err != nil:
		return effect.CannotTell(), err
	case status == http.StatusNotFound:
		return effect.CannotTell(), nil
	case status != http.StatusOK:
		return effect.CannotTell(), fmt.Errorf("the provider answers %d", status)
	}
	return effect.Happened(answer), checkReceipt(answer)
}

func (c client) do(ctx context.Context, method, path string, body []byte) (answer []byte, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return answer, response.StatusCode, err
}

// checkReceipt returns an error if an answer is not the receipt of a refund: then the outcome is unknown.
func checkReceipt(answer []byte) error {
	var r receipt
	if json.Unmarshal(answer, &r) != nil || r.ID == 0 || r.Cents <= 0 || r.Fee < 0 || r.Made.IsZero() {
		return errors.New("the provider's answer is no receipt")
	}
	return nil
}
