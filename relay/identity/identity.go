// Package identity is who gateway and relay are to each other: certificates of one authority, for a name, for one of the two
// sides of TLS.
package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Files are in PEM.
type Files struct{ Certificate, Key, Authority string }

// Relay is TLS 1.3 for who serves these gateways, and no others.
func Relay(files Files, gateways []string) (*tls.Config, error) {
	config, authority, err := files.load()
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = authority
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if name := Name(state.PeerCertificates[0], gateways); name == "" {
			return fmt.Errorf("it is %q: expected one of %q", state.PeerCertificates[0].Subject.CommonName, gateways)
		}
		return nil
	}
	return config, nil
}

// Gateway is TLS 1.3 towards the relay of a name, wherever that is reached.
func Gateway(files Files, relay string) (*tls.Config, error) {
	config, authority, err := files.load()
	if err != nil {
		return nil, err
	}
	config.RootCAs = authority
	config.ServerName = relay
	config.ClientSessionCache = forgetful{}
	return config, nil
}

// forgetful resumes no session; but relays give tickets only to those who might, and by a ticket a gateway knows that it was
// taken for one.
type forgetful struct{}

func (forgetful) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (forgetful) Put(string, *tls.ClientSessionState)        {}

// Name is the one of these that a certificate is for; "": none. An agent's certificate has its name as common name alone.
func Name(shown *x509.Certificate, names []string) string {
	for _, name := range names {
		if shown.Subject.CommonName == name || slices.Contains(shown.DNSNames, name) {
			return name
		}
	}
	return ""
}

func (f Files) load() (*tls.Config, *x509.CertPool, error) {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate %s and its key %s cannot be used (%w): expected both in PEM, one for the other",
			f.Certificate, f.Key, err)
	}
	text, err := os.ReadFile(f.Authority)
	authority := x509.NewCertPool()
	if err == nil && !authority.AppendCertsFromPEM(text) {
		err = errors.New("there is no certificate in it")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the authority %s cannot be used (%w): expected its certificate in PEM", f.Authority, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, authority, nil
}
