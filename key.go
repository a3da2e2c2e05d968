package agentstore

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// databaseKey returns the same key for all spellings of a database URL: the key
// depends on the meaning of the URL (with defaults, environment and service files
// resolved). Another user, password, server setting or requirement of TLS gives
// another key. Host names are not resolved: localhost and 127.0.0.1 may be different
// servers.
//
// The key contains the password only as part of a hash.
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
	// The requirements on the server and on the connection.
	write(demand(config.ValidateConnect), config.DefaultQueryExecMode.String(),
		config.SSLNegotiation, config.SSLCertMode, config.ChannelBinding, config.RequireAuth,
		config.MinProtocolVersion, config.MaxProtocolVersion)
	return hex.EncodeToString(h.Sum(nil))
}

// demand distinguishes the values of target_session_attrs, each of which the driver
// represents by a function.
func demand(validate pgconn.ValidateConnectFunc) string {
	if validate == nil {
		return ""
	}
	return runtime.FuncForPC(reflect.ValueOf(validate).Pointer()).Name()
}

func server(host string, port uint16, config *tls.Config) []string {
	if !strings.HasPrefix(host, "/") { // not the directory of a unix socket
		host = strings.ToLower(host)
	}
	if config == nil {
		return []string{host, fmt.Sprint(port), "plain"}
	}
	values := []string{
		host, fmt.Sprint(port),
		fmt.Sprintf("tls verify=%t custom=%t name=%s minimum=%d maximum=%d authorities=%d certificates=%d",
			!config.InsecureSkipVerify, config.VerifyPeerCertificate != nil || config.VerifyConnection != nil, config.ServerName,
			config.MinVersion, config.MaxVersion, authorities.number(config.RootCAs), len(config.Certificates)),
	}
	for _, own := range config.Certificates {
		for _, der := range own.Certificate {
			values = append(values, string(der))
		}
	}
	return values
}

// authorities numbers the sets of trusted certificates in this process: two files
// with the same content are one set. A caller that trusts other authorities must
// not share connections to a server that it would refuse.
var authorities numbering

// numbering gives equal sets equal numbers: the content of a set cannot be read,
// only compared. It is safe for concurrent use.
type numbering struct {
	mu   sync.Mutex
	sets []*x509.CertPool
}

// number returns 0 for the system's authorities.
func (n *numbering) number(set *x509.CertPool) int {
	if set == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := slices.IndexFunc(n.sets, set.Equal)
	if known < 0 {
		known = len(n.sets)
		n.sets = append(n.sets, set)
	}
	return known + 1
}
