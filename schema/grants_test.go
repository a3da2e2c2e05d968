package schema

import (
	"strings"
	"testing"
)

func TestGrantsRefusesNames(t *testing.T) {
	for _, roles := range []Roles{
		{Application: strings.Repeat("x", 64)},
		{Reader: "nul\x00"},
		{Audit: "$do$; DROP TABLE sessions; --"},
		{Application: "same", Reader: "same"},
		{Reader: "agentstore_application"},
	} {
		if sql, err := Grants(roles); err == nil || sql != "" {
			t.Errorf("%q: accepted", roles)
		}
	}
}

func TestGrantsQuotesNames(t *testing.T) {
	sql, err := Grants(Roles{Application: `a"b'c\d`})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(sql, `TO "a""b'c\d"`) || !strings.Contains(sql, ` E'a"b''c\\d'`) {
		t.Errorf("not quoted:\n%s", sql)
	}
	if strings.Contains(sql, ":'") || strings.Contains(sql, `:"`) {
		t.Errorf("a placeholder is left:\n%s", sql)
	}
}
