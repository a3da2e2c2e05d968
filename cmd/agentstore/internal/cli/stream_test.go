package cli

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func TestStream(t *testing.T) {
	d := newDatabase(t)
	key := "answer " + hostile
	write := func(parts ...string) repo.Stream {
		t.Helper()
		stream := must[repo.Stream](t)(d.store.Streams().Open(t.Context(), repo.NewStream{Key: key, Owner: "worker " + hostile}))
		for _, part := range parts {
			stream.Next = must[int64](t)(d.store.Streams().Append(t.Context(), stream, []byte(part)))
		}
		return stream
	}
	finished := write("pri", "vate\n", "\xd7", "\xa9\x1b", "\xff", "end\xe2")
	if out := d.run("stream", "show", key); !regexp.MustCompile(`Status: +open\n(.*\n)*Parts: +6\n`).MatchString(out) {
		t.Errorf("shown: %s", out)
	}
	if err := d.store.Streams().Finish(t.Context(), finished); err != nil {
		t.Fatal(err)
	}
	if out := d.run("stream", "tail", key); out != "0  3 bytes\n1  5 bytes\n2  1 bytes\n3  2 bytes\n4  1 bytes\n5  4 bytes\n" {
		t.Errorf("parts: %s", out)
	}
	if out := d.run("stream", "tail", key, "--contents"); out != "private\nש\\x1b\\xffend\\xe2\n" {
		t.Errorf("contents: %q", out)
	}
	if out := d.run("stream", "tail", key, "--from", "6"); out != "" {
		t.Errorf("after the end: %q", out)
	}

	failed := write("x")
	if err := d.store.Streams().Fail(t.Context(), failed, "private "+hostile); err != nil {
		t.Fatal(err)
	}
	shown := d.lines("stream", "show", key)[0]
	if shown["key"] != key || shown["id"] != failed.ID.String() || shown["reason"] != "private "+hostile || shown["parts"] != 1.0 {
		t.Errorf("shown: %v", shown)
	}
	if code, stdout, stderr := d.execute("stream", "tail", key, "--contents"); code != exitFailed || stdout != "x\n" || !regexp.MustCompile(`^agentstore: stream .* failed\n$`).MatchString(stderr) {
		t.Errorf("failed: code %d, %q, %q", code, stdout, stderr)
	}
	var got []any
	for _, line := range d.lines("stream", "tail", key, "--id", finished.ID.String(), "--from", "1", "--contents") {
		got = append(got, line["sequence"], line["text"], line["base64"])
	}
	want := []any{1.0, "vate\n", nil, 2.0, nil, "1w==", 3.0, nil, "qRs=", 4.0, nil, "/w==", 5.0, nil, "ZW5k4g=="}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}

	d.refuses(exitUsage, "KEY", "stream", "show")
	d.refuses(exitUsage, "key", "stream", "show", "")
	d.refuses(exitUsage, "--from: it is negative", "stream", "tail", key, "--from", "-1")
	d.refuses(exitUsage, "is not an id", "stream", "tail", key, "--id", "x")
	d.refuses(exitFailed, "not found", "stream", "show", "other")
	d.refuses(exitFailed, "not found", "stream", "tail", "other")
	d.refuses(exitFailed, "is gone", "stream", "tail", key, "--id", repo.NewID().String())
}

func TestStreamPrune(t *testing.T) {
	clock := memory.NewClock(time.Now())
	d := newDatabaseWith(t, agentstore.Options{Clock: clock})
	const parts = limits.DefaultStreamRemoval + 1 // more than one batch
	stream := must[repo.Stream](t)(d.store.Streams().Open(t.Context(), repo.NewStream{Key: "k", Owner: "o"}))
	for range parts {
		stream.Next = must[int64](t)(d.store.Streams().Append(t.Context(), stream, []byte("x")))
	}
	clock.Advance(2 * repo.MaxStreamTTL)
	d.refuses(exitFailed, "is gone", "stream", "show", "k")
	if out := d.run("stream", "prune", "--json"); out != `{"streams":1,"parts":1001}`+"\n" {
		t.Errorf("removed: %s", out)
	}
	if out := d.run("stream", "prune"); out != "removed: 0 streams, 0 parts\n" {
		t.Errorf("removed: %s", out)
	}
}
