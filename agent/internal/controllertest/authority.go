// SPDX-License-Identifier: Apache-2.0

// Package controllertest provides a controller for tests, with its own CA, enrolment, and sessions whose messages the test sends.
package controllertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"bicast/agent/trust"
)

// Authority is a CA.
type Authority struct {
	t           testing.TB
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority creates a CA.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.Certificate = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "bicast CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, &a.key.PublicKey)
	return a
}

// Pin returns the pin that a token contains.
func (a *Authority) Pin() trust.Pin { return sha256.Sum256(a.Certificate.Raw) }

// Controller returns a valid server certificate. change modifies the template before signing.
func (a *Authority) Controller(change func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{
		DNSNames: []string{trust.ControllerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(a.t)
	leaf := a.sign(template, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, a.Certificate.Raw}, PrivateKey: key, Leaf: leaf}
}

// Agent returns a certificate for an agent.
func (a *Authority) Agent(name string, public any) *x509.Certificate {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public)
}

// Relay returns a valid certificate that a relay shows to gateways. change modifies the template before signing.
func (a *Authority) Relay(name string, public any, change func(*x509.Certificate)) *x509.Certificate {
	template := &x509.Certificate{DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if change != nil {
		change(template)
	}
	return a.sign(template, public)
}

// Identity returns the identity of an enrolled agent.
func (a *Authority) Identity(name, session string) trust.Identity {
	key := newKey(a.t)
	return trust.Identity{
		Name: name, Session: session, Certificate: a.Agent(name, &key.PublicKey), CA: a.Certificate, Key: key,
	}
}

// Bound returns an identity whose certificate names a role, such as "relay" or "terminal:phone".
func (a *Authority) Bound(name, role, session string) trust.Identity {
	identity := a.Identity(name, session)
	identity.Certificate = a.bound(name, role, &identity.Key.PublicKey)
	return identity
}

// Renewed returns another certificate for the name, role and key of an identity.
func (a *Authority) Renewed(identity trust.Identity) *x509.Certificate {
	role := strings.TrimPrefix(identity.Certificate.URIs[0].Opaque, "bicast:agent:")
	return a.bound(identity.Name, role, &identity.Key.PublicKey)
}

func (a *Authority) bound(name, role string, public any) *x509.Certificate {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{{Scheme: "urn", Opaque: "bicast:agent:" + role}},
	}, public)
}

func (a *Authority) sign(template *x509.Certificate, public any) *x509.Certificate {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = serial
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent := a.Certificate
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
