package repo

// Page asks for one page of a list.
type Page struct {
	Limit int    // at most MaxPageSize; zero: DefaultPageSize
	After string // the Next of the previous page, of a list with the same filter; empty: the first page
}

// List is one page of a list. It ends earlier than after Page.Limit, before its items have 16 MiB of metadata, details, values,
// arguments and texts, with one item at least.
type List[T any] struct {
	Items []T
	Next  string // continues the list; empty: this was the last page
}
