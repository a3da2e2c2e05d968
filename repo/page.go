package repo

// Cursor continues a list after a page. It is opaque: take it from a page's Next,
// and pass it with the same filter.
type Cursor string

// Page asks for one page of a list.
type Page struct {
	// Limit is the maximum number of results, at most MaxPageSize. Zero:
	// DefaultPageSize.
	Limit int
	// After is the Next of the previous page. Empty: the first page.
	After Cursor
}
