package directory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://directory", agentstore.Options{})
	check(err)
	defer store.Close()
	session := repo.NewID()

	sidebar, err := directory.New(store, "ann")
	check(err)
	turn := repo.Turn{
		SessionID: session, Create: &repo.NewSession{Owner: "ann"}, ID: "request 1", Existing: true,
		Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "Where to go in May?"}, {Role: repo.RoleAssistant, Content: "Rome."}},
	}
	_, err = sidebar.AppendTurn(ctx, turn, directory.Edit{Title: new("A trip in May"), AddTags: []string{"travel"}})
	check(err)
	_, err = sidebar.MarkRead(ctx, session, 1)
	check(err)

	list, err := sidebar.List(ctx, directory.Selection{StarredFirst: true, Words: "trip"}, repo.Page{Limit: 50})
	check(err)
	for _, c := range list.Items {
		fmt.Println(c.Title, c.Tags, c.Unread)
	}

	links, err := share.New(store)
	check(err)
	link, token, err := links.Create(ctx, session, 0, 30*24*time.Hour) // up to the question
	check(err)
	shared, err := links.Open(ctx, token, share.Show{})
	check(err)
	for _, m := range shared.Messages {
		fmt.Println(m.Role, m.Content)
	}
	check(links.Revoke(ctx, "ann", link.ID))
	_, gone := links.Open(ctx, token, share.Show{})
	fmt.Println(gone)
	// Output:
	// A trip in May [travel] 1
	// user Where to go in May?
	// link "of this token" not found
}
