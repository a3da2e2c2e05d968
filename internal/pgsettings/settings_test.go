package pgsettings

import (
	"errors"
	"maps"
	"testing"
)

func TestPinTakesThePlaceOfEverySpelling(t *testing.T) {
	parameters := map[string]string{
		"CLIENT_ENCODING": "LATIN1", "timezone": "Asia/Kolkata", "datestyle": "SQL", "TimeZone": "x",
		"standard_conforming_strings": "off", "application_name": "mine",
	}
	Pin(parameters)
	want := map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
		"standard_conforming_strings": "on", "application_name": "mine",
	}
	if !maps.Equal(parameters, want) {
		t.Errorf("got %v", parameters)
	}
}

func TestNeeds(t *testing.T) {
	for _, test := range []struct {
		name, value string
		at          where
		refused     bool
	}{
		{"server_encoding", "UTF8", always, false},
		{"server_encoding", "LATIN1", always, true},
		{"server_encoding", "SQL_ASCII", always, true},
		{"client_encoding", "", always, false}, // a pooler does not report it
		{"DateStyle", "German, DMY", always, false},
		{"DateStyle", "German, DMY", inText, true},
		{"DateStyle", "ISO, DMY", inSimple, false},
		{"bytea_output", "escape", inText, true},
		{"bytea_output", "escape", always, false},
		{"extra_float_digits", "0", inText, true},
		{"extra_float_digits", "-15", inSimple, true},
		{"extra_float_digits", "1", inText, false},
		{"extra_float_digits", "3", inText, false},
		{"extra_float_digits", "-15", always, false},
		{"transform_null_equals", "on", inText, false},
		{"transform_null_equals", "on", inSimple, true},
		{"session_replication_role", "local", always, false},
		{"session_replication_role", "replica", always, true},
	} {
		var err error
		for _, need := range append(reported, asked...) {
			if need.name == test.name {
				err = need.check(test.value, test.at)
			}
		}
		if errors.Is(err, ErrSetting) != test.refused {
			t.Errorf("%s=%s at %d: %v", test.name, test.value, test.at, err)
		}
	}
}

func TestFirstSchema(t *testing.T) {
	for _, test := range []struct{ path, user, want string }{
		{`"$user", public`, "", "public"},
		{`"$user", public`, "app", "app"},
		{`Agents, public`, "", "agents"},
		{`"Agents", public`, "", "Agents"},
		{`"a""b,c" , d`, "", `a"b,c`},
		{`  x`, "", "x"},
		{``, "", ""},
		{`""`, "", ""},
		{`"$user"`, "", ""},
		{`"open`, "", "open"},
	} {
		if got := FirstSchema(test.path, test.user); got != test.want {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}
