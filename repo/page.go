package repo

// Cursor continues a list where a page ended. It is opaque: take it from a
// page's Next, and give it back with the same filter.
type Cursor string

// Page asks for one page of a list.
type Page struct {
	// Limit is the most entries to return, at most MaxPageSize. Zero:
	// DefaultPageSize.
	Limit int
	// After is the Next of the page before. Empty: the first page.
	After Cursor
}
