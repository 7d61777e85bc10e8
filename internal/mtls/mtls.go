// SPDX-License-Identifier: Apache-2.0

// Package mtls configures mutual TLS between gateway and relay. One authority issues the certificates, each for a name
// and for one side of TLS.
package mtls

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"bicast/internal/regularfile"
)

const maxFileBytes = 1 << 20 // above any certificate chain or bundle of authorities

// Files are paths of PEM files.
type Files struct{ Certificate, Key, Authority string }

// Guest is a gateway that a relay serves.
type Guest struct {
	Name   string
	KeySum []byte // SHA-256 of its only valid public key; nil: any with this name
}

// Guests are all gateways that a relay serves.
type Guests []Guest

// Name returns the gateway of a certificate, or "". Agents' certificates have their name as common name only.
func (g Guests) Name(shown *x509.Certificate) string {
	for _, guest := range g {
		if (shown.Subject.CommonName == guest.Name || slices.Contains(shown.DNSNames, guest.Name)) &&
			(guest.KeySum == nil || bytes.Equal(guest.KeySum, KeySum(shown))) {
			return guest.Name
		}
	}
	return ""
}

// Named returns gateways whose certificates are all valid.
func Named(names []string) Guests {
	var guests Guests
	for _, name := range names {
		guests = append(guests, Guest{Name: name})
	}
	return guests
}

// Relay returns the TLS 1.3 configuration of a relay for these gateways only.
func Relay(files Files, gateways []string) (*tls.Config, error) {
	pair, authority, err := files.Load()
	if err != nil {
		return nil, err
	}
	return Serving(pair, authority, Named(gateways)), nil
}

// Serving returns the TLS 1.3 configuration of a server with this certificate, for these guests of the authority.
func Serving(shows tls.Certificate, authority *x509.CertPool, guests Guests) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{shows},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority,
		VerifyConnection: func(state tls.ConnectionState) error {
			if shown := state.PeerCertificates[0]; guests.Name(shown) == "" {
				return fmt.Errorf("the peer shows a certificate for %q, expected a valid one of %v", shown.Subject.CommonName, guests)
			}
			return nil
		},
	}
}

func (g Guests) String() string {
	var names []string
	for _, guest := range g {
		names = append(names, guest.Name)
	}
	return fmt.Sprintf("%q", names)
}

// Gateway returns the TLS 1.3 configuration of a gateway for the relay with this name, at any address.
func Gateway(files Files, relay string) (*tls.Config, error) {
	pair, authority, err := files.Load()
	if err != nil {
		return nil, err
	}
	return Calling(pair, authority, relay, nil), nil
}

// Calling returns the TLS 1.3 configuration of a client with this certificate for the relay with this name. keySum is
// the SHA-256 of the relay's only valid public key; nil: any.
func Calling(shows tls.Certificate, authority *x509.CertPool, relay string, keySum []byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{shows},
		RootCAs: authority, ServerName: relay, ClientSessionCache: noSessions{},
		VerifyConnection: func(state tls.ConnectionState) error {
			if keySum != nil && !bytes.Equal(KeySum(state.PeerCertificates[0]), keySum) {
				return fmt.Errorf("the certificate of %q is for a key that is no longer valid: the relay was revoked, or has joined again", relay)
			}
			return nil
		},
	}
}

// KeySum returns the SHA-256 of a certificate's public key.
func KeySum(certificate *x509.Certificate) []byte {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return sum[:]
}

// noSessions never resumes a session. It exists because relays send tickets only to clients that could resume, and a
// gateway recognizes by the ticket that it was accepted.
type noSessions struct{}

func (noSessions) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (noSessions) Put(string, *tls.ClientSessionState)        {}

// Load reads the files.
func (f Files) Load() (tls.Certificate, *x509.CertPool, error) {
	certificate, err := read(f.Certificate)
	var key []byte
	if err == nil {
		key, err = read(f.Key)
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(certificate, key)
	}
	if err != nil {
		return pair, nil, fmt.Errorf("cannot use the certificate %s with the key %s (%w): expected a matching pair in PEM",
			f.Certificate, f.Key, err)
	}
	text, err := read(f.Authority)
	authority := x509.NewCertPool()
	if err == nil && !authority.AppendCertsFromPEM(text) {
		err = errors.New("the file has no certificate")
	}
	if err != nil {
		return pair, nil, fmt.Errorf("cannot use the authority %s (%w): expected its certificate in PEM", f.Authority, err)
	}
	return pair, authority, nil
}

func read(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, maxFileBytes)
	return text, err
}
