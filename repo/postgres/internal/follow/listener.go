package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// The pauses of a Listener before it connects again.
const (
	firstReconnect = 20 * time.Millisecond
	longReconnect  = 5 * time.Second
	// deafReconnect is the pause where nothing would be heard.
	deafReconnect = time.Minute
	// lasting is how long a connection must last for its loss not to count as one more
	// failure.
	lasting = 500 * time.Millisecond
	// connectTimeout bounds an attempt.
	connectTimeout = 10 * time.Second
	// linger is how long an unused connection is kept.
	linger = 5 * time.Second
)

// ErrDeaf is Connect's error if notifications would not reach the connection, such as
// behind a pooler.
var ErrDeaf = errors.New("follow: notifications would not arrive")

// Line is a connection on which payloads arrive.
type Line interface {
	// Next waits for a payload. After an error the Line is not used any more.
	Next(ctx context.Context) (payload string, err error)
	Close()
}

// ListenerConfig says how a Listener works. All fields are required.
type ListenerConfig struct {
	Connect func(ctx context.Context) (Line, error)
	// Connected is called with true when the Listener listens, after a time in which it
	// missed what was sent, and with false when it no longer does, and why.
	Connected func(bool, error)
	Heard     func(payload string)
}

// Listener listens for what the Notifiers of other processes send, while it has users.
// It has one connection, and makes another one when that is lost. It is safe for
// concurrent use. NewListener makes one.
type Listener struct {
	config  ListenerConfig
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	users  int
	hangUp context.CancelFunc // ends the goroutine; nil: there is none
	timer  *time.Timer        // calls hangUp after linger
	ended  bool
}

// NewListener returns a Listener. The caller must close it.
func NewListener(config ListenerConfig) *Listener {
	l := &Listener{config: config}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close closes the connection.
func (l *Listener) Close() {
	l.mu.Lock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
}

// Use keeps the Listener listening until release is called, once.
func (l *Listener) Use() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.hangUp == nil && !l.ended {
		var ctx context.Context
		ctx, l.hangUp = context.WithCancel(l.ctx)
		l.running.Go(func() { l.run(ctx) })
	}
	return l.release
}

func (l *Listener) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 || l.ended {
		return
	}
	l.timer = time.AfterFunc(linger, l.idle)
}

// idle ends the goroutine if it still has no users.
func (l *Listener) idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 && l.hangUp != nil {
		l.hangUp()
		l.hangUp = nil
	}
}

// run listens until ctx ends.
func (l *Listener) run(ctx context.Context) {
	pause := firstReconnect
	for ctx.Err() == nil {
		connecting, cancel := context.WithTimeout(ctx, connectTimeout)
		line, err := l.config.Connect(connecting)
		cancel()
		if err == nil {
			begin := time.Now()
			err = l.hear(ctx, line)
			if time.Since(begin) >= lasting {
				pause = firstReconnect
			}
		}
		if ctx.Err() != nil {
			return
		}
		l.config.Connected(false, err)
		wait := pause/2 + rand.N(pause)
		if pause = min(2*pause, longReconnect); errors.Is(err, ErrDeaf) {
			wait = deafReconnect
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// hear passes on what arrives, until the connection is lost or ctx ends.
func (l *Listener) hear(ctx context.Context, line Line) error {
	defer line.Close()
	l.config.Connected(true, nil)
	for {
		payload, err := line.Next(ctx)
		if err != nil {
			return err
		}
		l.config.Heard(payload)
	}
}
