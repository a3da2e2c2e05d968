package directory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// idsOf returns the sessions that an index has under some first parts of its keys, with the versions of these; whole:
// there are no others.
func (d *Directory) idsOf(ctx context.Context, prefix string) (ids map[repo.ID]int64, version int64, whole bool,
	err error,
) {
	page, err := d.store.State().List(ctx, repo.Scope{Name: d.scope}, prefix, repo.Page{Limit: maxFound})
	ids = map[repo.ID]int64{}
	for _, value := range page.Values {
		parts := adapter.SplitKey(value.Key)
		id, invalid := repo.ParseID(parts[len(parts)-1])
		if invalid == nil {
			ids[id] = value.Version
		}
	}
	return ids, page.Version, page.Next == "", err
}

// readStars reads what is starred, and returns the version of the owner's scope.
func (l *listing) readStars(ctx context.Context) (version int64, err error) {
	l.stars, version, _, err = l.idsOf(ctx, repo.JoinKey(indexStarred, ""))
	return version, err
}

// wanted returns how keys begin of which an entry has one each if it is selected.
func (s Selection) wanted() (prefixes []string) {
	entry := Entry{Title: s.Words, Starred: s.Starred, Archived: s.Archived, Tags: s.Tags}
	for _, key := range slices.Sorted(maps.Keys(entry.index(repo.ID{}))) {
		prefix := strings.TrimSuffix(key, repo.ID{}.String())
		if strings.HasPrefix(key, indexWord) { // a word's begin is enough
			prefix = strings.TrimSuffix(prefix, "/")
		}
		if !strings.HasPrefix(key, indexAll) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// has reports whether an entry has what is wanted.
func (e Entry) has(prefixes []string) bool {
	keys := e.index(repo.ID{})
	return !slices.ContainsFunc(prefixes, func(prefix string) bool {
		for key := range keys {
			if strings.HasPrefix(key, prefix) {
				return false
			}
		}
		return true
	})
}

// search returns the sessions that the indexes find for the selection; few: there are no others that it selects.
func (l *listing) search(ctx context.Context) (found []repo.ID, few bool, err error) {
	const enough = 50 // which are read as fast as another index
	for _, prefix := range l.wanted {
		ids, _, whole, err := l.idsOf(ctx, prefix)
		if err != nil {
			return nil, false, err
		}
		if whole && !few {
			found, few = slices.Collect(maps.Keys(ids)), true
		} else if whole {
			found = slices.DeleteFunc(found, func(id repo.ID) bool { return ids[id] == 0 })
		}
		if few && len(found) <= enough {
			break
		}
	}
	return found, few, nil
}
