// SPDX-License-Identifier: Apache-2.0

// Package mtlstest issues certificates for tests.
package mtlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bicast/internal/mtls"
)

// Authority is a certificate authority.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

// New returns a new authority.
func New(t testing.TB) *Authority {
	a := &Authority{t: t}
	a.key = a.newKey()
	a.certificate = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key, time.Hour)
	a.file = a.write("CERTIFICATE", a.certificate.Raw)
	return a
}

// Relay issues a server certificate.
func (a *Authority) Relay(name string) mtls.Files {
	return a.leaf(&x509.Certificate{DNSNames: []string{name}}, name, x509.ExtKeyUsageServerAuth, time.Hour)
}

// Gateway issues a client certificate as agents have it; a negative lifetime makes an expired one.
func (a *Authority) Gateway(name string, good time.Duration) mtls.Files {
	return a.leaf(&x509.Certificate{}, name, x509.ExtKeyUsageClientAuth, good)
}

func (a *Authority) leaf(wanted *x509.Certificate, name string, use x509.ExtKeyUsage, good time.Duration) mtls.Files {
	key := a.newKey()
	wanted.Subject.CommonName = name
	wanted.ExtKeyUsage = []x509.ExtKeyUsage{use}
	signed := a.sign(wanted, key, good)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	return mtls.Files{Certificate: a.write("CERTIFICATE", signed.Raw), Key: a.write("PRIVATE KEY", encoded), Authority: a.file}
}

func (a *Authority) sign(wanted *x509.Certificate, key *ecdsa.PrivateKey, good time.Duration) *x509.Certificate {
	parent := a.certificate
	if parent == nil {
		parent = wanted
	}
	var err error
	wanted.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	a.must(err)
	wanted.NotBefore, wanted.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(good)
	raw, err := x509.CreateCertificate(rand.Reader, wanted, parent, key.Public(), a.key)
	a.must(err)
	signed, err := x509.ParseCertificate(raw)
	a.must(err)
	return signed
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *Authority) write(kind string, raw []byte) string {
	name := filepath.Join(a.t.TempDir(), "file.pem")
	a.must(os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
	return name
}

func (a *Authority) must(err error) {
	if err != nil {
		a.t.Fatal(err)
	}
}
