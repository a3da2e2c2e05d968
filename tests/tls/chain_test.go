package tls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// authority is a certificate that signs others, with its key.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// pem returns the certificate, as in a client's sslrootcert.
func (a authority) pem() string { return certificatePEM(a.certificate.Raw) }

// newAuthority makes a root, which signs itself.
func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	return issue(t, authority{}, authorityTemplate(name))
}

// intermediate makes an authority below this one.
func (a authority) intermediate(t *testing.T, name string) authority {
	t.Helper()
	template := authorityTemplate(name)
	template.MaxPathLenZero = true // it signs servers only
	return issue(t, a, template)
}

// server issues a certificate for a server's host name, and returns it and its key as
// PEM.
func (a authority) server(t *testing.T, host string) (certificate, key string) {
	t.Helper()
	leaf := issue(t, a, &x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		DNSNames:    []string{host},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	return leaf.pem(), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func authorityTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func issue(t *testing.T, by authority, template *x509.Certificate) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	if by.key == nil {
		by = authority{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate: certificate, key: key}
}

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
