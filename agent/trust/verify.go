// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ControllerName is the name in every controller's certificate. Its addresses may change.
const ControllerName = "bicast-controller"

// Mutual returns the TLS configuration for sessions, in which both sides show certificates.
func (i Identity) Mutual() *tls.Config {
	config := verifying(func([]*x509.Certificate) (*x509.Certificate, error) { return i.CA, nil })
	config.Certificates = []tls.Certificate{i.forTLS()}
	return config
}

// pinned returns the TLS configuration for joining: only the fingerprint of the controller's CA is known, and the agent
// shows no certificate.
func pinned(pin Pin) *tls.Config {
	return verifying(func(shown []*x509.Certificate) (*x509.Certificate, error) {
		for _, one := range shown {
			if sha256.Sum256(one.Raw) == pin && one.IsCA {
				return one, nil
			}
		}
		return nil, errors.New("it shows no CA with the fingerprint in the token, so it is not the controller that printed " +
			"the token: check the address, or run `bicast enroll` again")
	})
}

// verifying replaces the verification of crypto/tls by the same steps with other error messages.
func verifying(authority func(shown []*x509.Certificate) (*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         ControllerName,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			ca, err := authority(state.PeerCertificates)
			if err == nil {
				err = verify(state.PeerCertificates[0], ca)
			}
			if err != nil {
				return &verificationError{err}
			}
			return nil
		},
	}
}

// verificationError is the failed verification of a controller. The reason is a sentence.
type verificationError struct{ reason error }

func (n *verificationError) Error() string { return n.reason.Error() }
func (n *verificationError) Unwrap() error { return n.reason }

func verify(shown, ca *x509.Certificate) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := shown.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: ControllerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	var stranger x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var otherName x509.HostnameError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stranger):
		return fmt.Errorf("its certificate is not signed by the CA that this agent joined: it is another controller, or it has "+
			"a new CA, and this host has to join again (%w)", err)
	case errors.As(err, &otherName):
		return fmt.Errorf("it is not the controller: its certificate is for other names, expected %q", ControllerName)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("its certificate is not valid at this time: check the clocks of both hosts (%w)", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("it is not the controller: it shows an agent's certificate")
	default:
		return err
	}
}
