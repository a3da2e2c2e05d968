// Command screenshots makes the pictures of docs/images: of the inspector's pages, in a real browser, of a store in memory.
package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/tests/browser"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: screenshots DIRECTORY")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(directory string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	store := memory.New()
	defer store.Close()
	session, err := fill(ctx, store)
	if err != nil {
		return err
	}
	pages, err := inspect.Handler(store, inspect.Options{Authorize: func(*http.Request) (inspect.Access, error) {
		return inspect.Access{Viewer: "ada@example.com", AllNamespaces: true, Contents: true, Actions: true}, nil
	}})
	if err != nil {
		return err
	}
	server := httptest.NewServer(pages)
	defer server.Close()
	defer func() { _ = pages.Shutdown(ctx) }()
	page, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer page.Close()
	for _, picture := range []struct {
		name, path    string
		width, height int
		dark          bool
	}{
		{"conversation", "/sessions/" + session.String(), 1200, 900, false},
		{"plans", "/plans?namespace=shop", 1200, 760, true},
		{"phone", "/sessions?namespace=shop", 390, 780, false},
	} {
		if err := page.Look(ctx, picture.width, picture.height, picture.dark); err != nil {
			return err
		}
		if err := page.Open(ctx, server.URL+picture.path); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // the feed has begun
		if err := page.Eval(ctx, "scrollTo(0, 0)", nil); err != nil {
			return err
		}
		shot, err := page.Picture(ctx)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(directory, picture.name+".png"), shot); err != nil {
			return err
		}
	}
	for _, said := range page.Said() {
		return fmt.Errorf("the browser said: %s", said)
	}
	return nil
}

// write writes a picture in as few bytes as its colours allow: those of a page are few.
func write(name string, shot []byte) error {
	decoded, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return err
	}
	picture := image.NewPaletted(decoded.Bounds(), palette(decoded))
	draw.Draw(picture, picture.Rect, decoded, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, picture); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", name, out.Len())
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// palette returns the 256 colours that a picture has most of.
func palette(of image.Image) color.Palette {
	count := map[color.Color]int{}
	for y := range of.Bounds().Dy() {
		for x := range of.Bounds().Dx() {
			count[of.At(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	return all[:min(256, len(all))]
}

// fill makes a shop's conversations and plans, and returns the session of which the picture is.
func fill(ctx context.Context, store repo.Store) (id repo.ID, err error) {
	must := func(e error) {
		if err == nil {
			err = e
		}
	}
	questions := []string{
		"When will order 4711 arrive?", "I would like to send the blue lamp back.", "Do you ship to Norway?", "The invoice has the wrong address.",
		"Is the oak table in stock?", "Please cancel my subscription.", "My voucher does not work.", "Which bulb fits the desk lamp?",
	}
	for i, question := range questions {
		session, e := store.Sessions().Create(ctx, repo.NewSession{
			Namespace: "shop", Key: fmt.Sprintf("web/%d", 8190+i), Owner: fmt.Sprintf("customer-%d", 300+7*i), Actor: "support/v3",
		})
		must(e)
		_, e = store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: question, Tokens: 12})
		must(e)
		if i%2 == 0 {
			_, e = store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleAssistant, Content: "Let me look that up for you.", Tokens: 9})
			must(e)
		}
	}
	budget := 2 * repo.CostUnit
	session, e := store.Sessions().Create(ctx, repo.NewSession{
		Namespace: "shop", Key: "web/8201", Owner: "customer-417", Actor: "support/v3", Budget: &budget, Metadata: []byte(`{"channel":"web","language":"en"}`),
	})
	must(e)
	_, e = store.Sessions().Append(ctx, session.ID,
		repo.NewMessage{Role: repo.RoleSystem, Content: "You answer customers of a furniture shop. Look things up before you promise anything, and never quote a price that a tool has not returned.", Tokens: 31},
		repo.NewMessage{Role: repo.RoleUser, Content: "Where is my order? It was to arrive on Monday.", Tokens: 13},
		repo.NewMessage{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "call_7", Content: `{"tool":"find_orders","arguments":{"customer":417,"since":"2026-11-01"}}`, Tokens: 28},
		repo.NewMessage{Role: repo.RoleTool, Kind: "tool_result", CallID: "call_7", Content: `[{"order":4711,"state":"shipped","carrier":"northpost","promised":"2026-11-23"}]`, Tokens: 33},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "Order 4711 left our warehouse on Friday, and is with Northpost. They expect to deliver it tomorrow, a day late. I am sorry about that.\n\nShall I have them ring you an hour before?", Tokens: 44},
		repo.NewMessage{Role: repo.RoleUser, Content: "Yes please. And can I get the delivery fee back?", Tokens: 14},
	)
	must(e)
	_, e = store.Sessions().AddUsage(ctx, session.ID, repo.NewUsage{InputTokens: 2310, OutputTokens: 412, Cost: 13_400_000})
	must(e)
	_, e = store.Leases().Acquire(ctx, repo.NewLease{Key: repo.SessionLease(session.ID), Owner: "worker-2/01KGGZ"})
	must(e)
	stream, e := store.Streams().Open(ctx, repo.NewStream{Key: "web/8201/answer", Owner: "worker-2", Session: session.ID})
	must(e)
	_, e = store.Streams().Append(ctx, stream, []byte("The fee "), []byte("is 4.90."))
	must(e)
	must(plans(ctx, store, session.ID))
	return session.ID, err
}

func plans(ctx context.Context, store repo.Store, session repo.ID) (err error) {
	must := func(e error) {
		if err == nil {
			err = e
		}
	}
	for _, name := range []string{"refund", "answer", "reindex"} {
		_, e := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 3}})
		must(e)
	}
	for i := range 14 {
		use := repo.UseAction{Namespace: "shop", Name: fmt.Sprintf("%s %d", []string{"Refund", "Answer"}[i%2], 4700+i)}
		if i%3 == 0 {
			use.SessionID = session
		}
		if i == 13 {
			use.NotBefore = time.Now().Add(time.Hour)
		}
		_, e := store.Plans().Use(ctx, []string{"refund", "answer"}[i%2], use)
		must(e)
	}
	claimed, e := store.Plans().Claim(ctx, repo.Claim{Owner: "worker-2/01KGGZ", Namespaces: []string{"shop"}, Limit: 7})
	must(e)
	for i, c := range claimed {
		switch {
		case i < 3:
			_, e = store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Version: c.Plan.Version})
		case i == 3:
			_, e = store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionFail, repo.Cause{Version: c.Plan.Version, Reason: "the bank refused it", Final: true})
		case i == 4:
			_, e = store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionCancel, repo.Cause{Version: c.Plan.Version, Reason: "the customer changed her mind"})
		}
		must(e)
	}
	return err
}
