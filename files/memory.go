package files

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// NewMemory returns a Blobs in memory, for tests.
func NewMemory() Blobs { return &memory{blobs: map[string][]byte{}} }

type memory struct {
	mu    sync.RWMutex
	blobs map[string][]byte
}

func (m *memory) Put(ctx context.Context, key string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[key] = data
	return nil
}

func (m *memory) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	data, found := m.blobs[key]
	if !found || offset > int64(len(data)) {
		return nil, &repo.NotFoundError{Kind: "blob", Name: key}
	}
	return io.NopCloser(bytes.NewReader(data[offset:])), ctx.Err()
}

func (m *memory) Delete(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, key)
	return ctx.Err()
}
