package pages_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
)

func list(page repo.Page) (repo.List[int], error) {
	first, _ := strconv.Atoi(page.After)
	last := min(first+page.Limit, 2500)
	var found repo.List[int]
	for i := first; i < last; i++ {
		found.Items = append(found.Items, i)
	}
	if last < 2500 {
		found.Next = strconv.Itoa(last)
	}
	return found, nil
}

func TestItems(t *testing.T) {
	var got, sizes []int
	err := pages.Items(list, func(i int) error { got = append(got, i); return nil })
	if err != nil || len(got) != 2500 || !slices.IsSorted(got) {
		t.Errorf("%v: %d items", err, len(got))
	}
	if err := pages.Each(2000, list, func(items []int) error { sizes = append(sizes, len(items)); return nil }); err != nil || !slices.Equal(sizes, []int{2000, 500}) {
		t.Errorf("%v: pages of %v", err, sizes)
	}
	failed := errors.New("enough")
	if err := pages.Items(list, func(i int) error {
		if i > 3 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	none := func(repo.Page) (list repo.List[int], err error) { return list, failed }
	if err := pages.Items(none, func(int) error { return nil }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
