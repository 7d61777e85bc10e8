// SPDX-License-Identifier: Apache-2.0

// Package mtls is mutual TLS between gateway and relay: certificates of one authority, each for a name and for one of the two
// sides of TLS.
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

const fileBytes = 1 << 20 // more than any chain of certificates, or bundle of authorities, has

// Files are in PEM.
type Files struct{ Certificate, Key, Authority string }

// Guest is a gateway that is served.
type Guest struct {
	Name string
	Sum  []byte // SHA-256 of the one certificate (DER) that counts; nil: any that is for the name
}

// Guests are all of them.
type Guests []Guest

// Name is whose of these a certificate is; "": nobody's. An agent's certificate has its name as common name alone.
func (g Guests) Name(shown *x509.Certificate) string {
	sum := sha256.Sum256(shown.Raw)
	for _, guest := range g {
		if (shown.Subject.CommonName == guest.Name || slices.Contains(shown.DNSNames, guest.Name)) &&
			(guest.Sum == nil || bytes.Equal(guest.Sum, sum[:])) {
			return guest.Name
		}
	}
	return ""
}

// Named are gateways of which any certificate counts.
func Named(names []string) Guests {
	var guests Guests
	for _, name := range names {
		guests = append(guests, Guest{Name: name})
	}
	return guests
}

// Relay is TLS 1.3 for who serves these gateways, and no others.
func Relay(files Files, gateways []string) (*tls.Config, error) {
	pair, authority, err := files.Load()
	if err != nil {
		return nil, err
	}
	return Serving(pair, authority, Named(gateways)), nil
}

// Serving is TLS 1.3 for who shows this certificate and serves these guests, whom that authority vouches for.
func Serving(shows tls.Certificate, authority *x509.CertPool, guests Guests) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{shows},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority,
		VerifyConnection: func(state tls.ConnectionState) error {
			if shown := state.PeerCertificates[0]; guests.Name(shown) == "" {
				return fmt.Errorf("it is %q: expected the certificate that counts of one of %v", shown.Subject.CommonName, guests)
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

// Gateway is TLS 1.3 towards the relay of a name, wherever that is reached.
func Gateway(files Files, relay string) (*tls.Config, error) {
	pair, authority, err := files.Load()
	if err != nil {
		return nil, err
	}
	return Calling(pair, authority, relay, nil), nil
}

// Calling is TLS 1.3 for who shows this certificate to the relay of a name, whom that authority vouches for. keySum is the SHA-256
// of the one public key that counts; nil: any.
func Calling(shows tls.Certificate, authority *x509.CertPool, relay string, keySum []byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{shows},
		RootCAs: authority, ServerName: relay, ClientSessionCache: forgetful{},
		VerifyConnection: func(state tls.ConnectionState) error {
			if keySum != nil && !bytes.Equal(KeySum(state.PeerCertificates[0]), keySum) {
				return fmt.Errorf("the certificate of %q is for a key that counts no more: the relay was revoked, or has joined again", relay)
			}
			return nil
		},
	}
}

// KeySum is the SHA-256 of the public key that a certificate is for.
func KeySum(certificate *x509.Certificate) []byte {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return sum[:]
}

// forgetful resumes no session; but relays give tickets only to those who might, and by a ticket a gateway knows that it was
// taken for one.
type forgetful struct{}

func (forgetful) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (forgetful) Put(string, *tls.ClientSessionState)        {}

// Load reads them.
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
		return pair, nil, fmt.Errorf("the certificate %s and its key %s cannot be used (%w): expected both in PEM, one for the other",
			f.Certificate, f.Key, err)
	}
	text, err := read(f.Authority)
	authority := x509.NewCertPool()
	if err == nil && !authority.AppendCertsFromPEM(text) {
		err = errors.New("there is no certificate in it")
	}
	if err != nil {
		return pair, nil, fmt.Errorf("the authority %s cannot be used (%w): expected its certificate in PEM", f.Authority, err)
	}
	return pair, authority, nil
}

func read(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, fileBytes)
	return text, err
}
