// Package browser drives a real headless browser for tests and pictures, by the protocol of its developer tools, over a pipe.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Page is the one page of a browser of its own. Its methods may be called from one goroutine.
type Page struct {
	command *exec.Cmd
	dir     string
	in      io.WriteCloser
	session string
	number  int

	mu      sync.Mutex
	waiting map[int]chan reply
	loaded  int      // how many pages were
	said    []string // what the browser complained about: errors of scripts, and what the page's policy refused
	gone    error
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// Start starts a browser, without network but for this machine's. Errors: it is not installed, or does not start.
func Start(ctx context.Context) (*Page, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return nil, errors.New("no Chromium: make test installs it (Debian: apt-get install --no-install-recommends chromium)")
	}
	dir, err := os.MkdirTemp("", "agentstore-chromium-")
	if err != nil {
		return nil, err
	}
	fromUs, toIt, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromIt, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+filepath.Join(dir, "profile"), "about:blank")
	command.Dir, command.ExtraFiles = dir, []*os.File{fromUs, toUs}
	command.Env = append(os.Environ(), "TMPDIR="+dir) // it leaves there what it makes
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = command.Start()
	_, _ = fromUs.Close(), toUs.Close()
	p := &Page{command: command, dir: dir, in: toIt, waiting: map[int]chan reply{}}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go p.read(fromIt)
	if err := p.attach(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Page) attach(ctx context.Context) error {
	var target struct{ TargetID string }
	if err := p.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := p.call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := p.call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// read takes what the browser sends, until it ends.
func (p *Page) read(from io.ReadCloser) {
	defer from.Close()
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := lines.ReadBytes(0)
		if err != nil {
			p.mu.Lock()
			p.gone = fmt.Errorf("the browser has ended: %w", err)
			for _, waiting := range p.waiting {
				close(waiting)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) == nil {
			p.take(r)
		}
	}
}

func (p *Page) take(r reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.ID != 0:
		if waiting := p.waiting[r.ID]; waiting != nil {
			delete(p.waiting, r.ID)
			waiting <- r
		}
	case r.Method == "Page.loadEventFired":
		p.loaded++
	case r.Method == "Runtime.exceptionThrown", r.Method == "Log.entryAdded" && strings.Contains(string(r.Params), `"source":"security"`),
		r.Method == "Page.javascriptDialogOpening":
		p.said = append(p.said, r.Method+" "+string(r.Params))
	}
}

func (p *Page) call(ctx context.Context, method string, params, into any) error {
	p.number++
	answer := make(chan reply, 1)
	p.mu.Lock()
	gone := p.gone
	if gone == nil {
		p.waiting[p.number] = answer
	}
	p.mu.Unlock()
	if gone != nil {
		return gone
	}
	call := map[string]any{"id": p.number, "method": method}
	if params != nil {
		call["params"] = params
	}
	if p.session != "" {
		call["sessionId"] = p.session
	}
	text, err := json.Marshal(call)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case r, open := <-answer:
		switch {
		case !open:
			return fmt.Errorf("%s: %w", method, p.gone)
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case into != nil:
			return json.Unmarshal(r.Result, into)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Open shows an address, and waits until it is loaded.
func (p *Page) Open(ctx context.Context, address string) error {
	return p.Loads(ctx, func() error {
		var answer struct{ ErrorText string }
		err := p.call(ctx, "Page.navigate", map[string]any{"url": address}, &answer)
		if err == nil && answer.ErrorText != "" {
			err = errors.New(answer.ErrorText)
		}
		return err
	})
}

// Loads waits until something has loaded another page.
func (p *Page) Loads(ctx context.Context, something func() error) error {
	loaded := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.loaded
	}
	before := loaded()
	if err := something(); err != nil {
		return err
	}
	for loaded() == before {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond): // pace: it is looked at again
		}
	}
	return nil
}

// Eval evaluates an expression in the page, as its own scripts would.
func (p *Page) Eval(ctx context.Context, expression string, into any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.ExceptionDetails != nil:
		return errors.New(answer.ExceptionDetails.Text + " " + answer.ExceptionDetails.Exception.Description)
	case into == nil || answer.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, into)
}

// Look sets what a viewer has: the size of the window, and whether the colours are dark.
func (p *Page) Look(ctx context.Context, width, height int, dark bool) error {
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	return errors.Join(
		p.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil),
		p.call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil))
}

// Scripts switches scripts of pages on or off.
func (p *Page) Scripts(ctx context.Context, on bool) error {
	return p.call(ctx, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !on}, nil)
}

// Picture returns a picture of the window, as PNG.
func (p *Page) Picture(ctx context.Context) ([]byte, error) {
	var answer struct{ Data []byte }
	err := p.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &answer)
	return answer.Data, err
}

// Said returns what the browser has complained about: errors of scripts, dialogs, and what the policy of the page has refused.
func (p *Page) Said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.said...)
}

// Close ends the browser, all of its processes, and removes what it has left.
func (p *Page) Close() error {
	err := syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	_ = p.command.Wait()
	_ = p.in.Close()
	for range 1000 { // what is left of its processes may still write
		if os.RemoveAll(p.dir) == nil {
			return err
		}
		time.Sleep(50 * time.Millisecond) // pace: they end
	}
	return err
}
