package agentstore

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// databaseKey is the same for all spellings of one database URL: it is taken
// from what the URL means (defaults, environment and service files resolved),
// not from how it is written. Who comes as another user, with another password,
// other server settings or another demand on TLS has another key. Host names
// are not resolved: localhost and 127.0.0.1 may be different servers.
//
// The password is in it only as part of a hash.
func databaseKey(config *pgx.ConnConfig) string {
	h := sha256.New()
	write := func(values ...string) {
		for _, value := range values {
			fmt.Fprintf(h, "%d:%s", len(value), value)
		}
	}
	write(config.Database, config.User, config.Password)
	write(server(config.Host, config.Port, config.TLSConfig)...)
	for _, fallback := range config.Fallbacks {
		write(server(fallback.Host, fallback.Port, fallback.TLSConfig)...)
	}
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		write(name, config.RuntimeParams[name])
	}
	// A demand on the server (target_session_attrs) has no value to write, only
	// whether there is one.
	write(fmt.Sprint(config.ValidateConnect != nil), config.DefaultQueryExecMode.String())
	return hex.EncodeToString(h.Sum(nil))
}

func server(host string, port uint16, config *tls.Config) []string {
	security := "plain"
	if config != nil {
		security = fmt.Sprintf("tls verify=%t custom=%t name=%s certificates=%d",
			!config.InsecureSkipVerify, config.VerifyPeerCertificate != nil, config.ServerName, len(config.Certificates))
	}
	if !strings.HasPrefix(host, "/") { // not the directory of a unix socket
		host = strings.ToLower(host)
	}
	return []string{host, fmt.Sprint(port), security}
}
