package repo

// Page asks for one page of a list.
type Page struct {
	Limit int    // at most MaxPageSize; zero: DefaultPageSize
	After string // the Next of the previous page, of a list with the same filter; empty: the first page
}

// List is one page of a list. It ends earlier than Page.Limit says before its items have 16 MiB, but has one at least.
type List[T any] struct {
	Items []T
	Next  string // continues the list; empty: this was the last page
}
