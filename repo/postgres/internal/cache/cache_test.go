package cache

import "testing"

// What is used stays known when the rest is dropped.
func TestCache(t *testing.T) {
	t.Parallel()
	var c Cache[int, string]
	const used, unused = -1, -2
	c.Put(used, "used", 0)
	c.Put(unused, "unused", 0)
	for i := range 3 * Generation / Entry {
		c.Put(i, "", 0)
		if value, found := c.Get(used); !found || value != "used" {
			t.Fatal("what is used was forgotten")
		}
	}
	if _, found := c.Get(unused); found || len(c.young)+len(c.old) > 2*Generation/Entry {
		t.Errorf("there are %d and %d, and the unused one", len(c.young), len(c.old))
	}
	for range 3 * Generation / Entry {
		c.Put(used, "again", 0)
	}
	if _, found := c.Get(3*Generation/Entry - 1); !found {
		t.Error("what is put again and again takes the room of others")
	}
	c.Drop(used)
	if _, found := c.Get(used); found {
		t.Error("what was dropped is there")
	}
	c.Put(used, "large", Generation)
	if len(c.young) != 1 {
		t.Errorf("%d are beside one that takes all", len(c.young)-1)
	}
}
