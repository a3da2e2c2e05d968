package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/repo"
)

// headBytes is how much is read into memory before anything is written.
const headBytes = 1<<20 + 1

var heads = sync.Pool{New: func() any { return new([headBytes]byte) }}

// source is what is to be kept. If it is short, or can seek, it is read to be hashed, and then again to be written.
type source struct {
	begin *[headBytes]byte
	head  []byte       // what was read of it
	rest  io.Reader    // nil: head is all
	seek  func() error // to behind the head, if it can seek
	sum   string       // of all; empty: it is read once
	size  int64
	limit int64
}

// newSource reads a source, as far as it can be read again.
func newSource(ctx context.Context, r io.Reader, limit int64) (*source, error) {
	s := &source{begin: heads.Get().(*[headBytes]byte), seek: func() error { return nil }, limit: limit}
	// The first one reads nothing ahead of where rest begins, but may have an error still.
	s.rest = io.MultiReader(ctxio.NewReader(ctx, io.LimitReader(r, headBytes)), ctxio.NewReader(ctx, r))
	read := &counted{ctx: ctx, r: s.rest, limit: limit, sum: sha256.New()}
	had, err := io.ReadFull(read, s.begin[:])
	n := int64(had)
	s.head = s.begin[:n]
	seeker, can := r.(io.Seeker)
	switch {
	case read.ended:
		s.rest = nil
	case read.err != nil || err != nil: // io.ErrUnexpectedEOF may be r's own, as of a connection that was cut
		return s, cmp.Or(read.err, err)
	case can:
		at, err := seeker.Seek(0, io.SeekCurrent)
		if err != nil {
			return s, nil //nolint:nilerr // such as of a pipe
		}
		s.seek = func() error {
			s.rest = ctxio.NewReader(ctx, r)
			_, err := seeker.Seek(at, io.SeekStart)
			return err
		}
		if n, err = io.Copy(io.Discard, read); err != nil {
			return s, err
		}
		n += headBytes
	default:
		return s, nil
	}
	s.sum, s.size = read.hex(), n
	return s, nil
}

// done gives back the memory of a source that was read to its end. After an error a Blobs may be at it still.
func (s *source) done() { heads.Put(s.begin) }

// again returns all of the source. What is in memory needs no other hash.
func (s *source) again(ctx context.Context) (*counted, error) {
	head := bytes.NewReader(s.head)
	if s.rest == nil {
		return &counted{ctx: ctx, r: head, limit: s.limit}, nil
	}
	err := s.seek()
	return &counted{ctx: ctx, r: io.MultiReader(head, s.rest), limit: s.limit, sum: sha256.New()}, err
}

// counted reads a source, for one call.
type counted struct {
	ctx         context.Context //nolint:containedctx // the call's
	r           io.Reader
	limit, size int64
	sum         hash.Hash
	ended       bool
	err         error // r's, or that there is too much
}

func (c *counted) hex() string { return hex.EncodeToString(c.sum.Sum(nil)) }

func (c *counted) Read(p []byte) (int, error) {
	if err := cmp.Or(c.ctx.Err(), c.err); err != nil { // a buffer that was full has hidden it
		return 0, err
	}
	n, err := c.r.Read(p)
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	if c.size += int64(n); c.size > c.limit {
		err = &repo.LimitExceededError{Kind: "bytes of a file", Limit: c.limit}
	}
	if c.ended = err == io.EOF; err != nil && !c.ended { // what wraps it is no end
		c.err = err
	}
	return n, err
}
