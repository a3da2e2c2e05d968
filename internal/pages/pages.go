// Package pages reads lists to their end. What is done with their items may delete them: pages go by key.
package pages

import "github.com/seed-df90f812/agentstore/repo"

// Each calls do for each page of a list, of at most limit items.
func Each[Item any](limit int, list func(repo.Page) (repo.List[Item], error), do func([]Item) error) error {
	for page := (repo.Page{Limit: limit}); ; {
		found, err := list(page)
		if err != nil {
			return err
		}
		if err := do(found.Items); err != nil {
			return err
		}
		if page.After = found.Next; page.After == "" {
			return nil
		}
	}
}

// Items calls do for each item of a list.
func Items[Item any](list func(repo.Page) (repo.List[Item], error), do func(Item) error) error {
	return Each(repo.MaxPageSize, list, func(items []Item) error {
		for _, item := range items {
			if err := do(item); err != nil {
				return err
			}
		}
		return nil
	})
}
