// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ControllerName is in the controller's certificate, wherever the controller is reached: addresses change.
const ControllerName = "bicast-controller"

// Mutual is TLS with both sides known.
func (i Identity) Mutual() *tls.Config {
	config := verifying(func([]*x509.Certificate) (*x509.Certificate, error) { return i.CA, nil })
	config.Certificates = []tls.Certificate{i.forTLS()}
	return config
}

// TLS with a controller of which a fingerprint of its CA is known and nothing else; we are nobody yet.
func pinned(pin Pin) *tls.Config {
	return verifying(func(shown []*x509.Certificate) (*x509.Certificate, error) {
		for _, one := range shown {
			if sha256.Sum256(one.Raw) == pin && one.IsCA {
				return one, nil
			}
		}
		return nil, errors.New("it shows no CA with the fingerprint in the token: it is not the controller that printed the " +
			"token, or somebody stands between; nothing was told to it")
	})
}

// The library's own verification is replaced for the sake of what it says when it fails: the same is done here.
func verifying(authority func(shown []*x509.Certificate) (*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         ControllerName,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			ca, err := authority(state.PeerCertificates)
			if err == nil {
				err = verify(state.PeerCertificates[0], ca)
			}
			if err != nil {
				return &notTheController{err}
			}
			return nil
		},
	}
}

// Who shows a certificate that is not the controller's: the reason says so in a whole sentence.
type notTheController struct{ reason error }

func (n *notTheController) Error() string { return n.reason.Error() }
func (n *notTheController) Unwrap() error { return n.reason }

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
		return fmt.Errorf("its certificate is not of the CA that this agent joined: it is another controller, or this one was "+
			"set up anew and wants us to join again (%w)", err)
	case errors.As(err, &otherName):
		return fmt.Errorf("it is not the controller: its certificate is for other names, expected %q", ControllerName)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("its certificate is not valid at this time: is the clock right here, and there? (%w)", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("it is not the controller: its certificate is an agent's")
	default:
		return err
	}
}
