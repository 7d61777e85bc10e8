// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Serving returns the server certificate (DER) of this agent's name, with its key.
func (i Identity) Serving(certificate []byte, now time.Time) (tls.Certificate, error) {
	shown, err := x509.ParseCertificate(certificate)
	if err == nil {
		err = i.serves(shown, now)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("invalid server certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{shown.Raw}, PrivateKey: i.Key, Leaf: shown}, nil
}

func (i Identity) serves(shown *x509.Certificate, now time.Time) error {
	if public, ok := shown.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(&i.Key.PublicKey) {
		return errors.New("it is for another key: the agent may have joined again after the controller issued it")
	}
	_, err := shown.Verify(x509.VerifyOptions{
		Roots: i.Authority(), DNSName: i.Name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	var otherName x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &otherName):
		return fmt.Errorf("it is for the names %q, expected %q", shown.DNSNames, i.Name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("it is valid from %v to %v, and this host's clock shows %v: check the clock",
			shown.NotBefore.UTC(), shown.NotAfter.UTC(), now.UTC().Round(time.Second))
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("it does not allow server authentication")
	default:
		return fmt.Errorf("it is not signed by the CA that this agent joined (%w)", err)
	}
}

// Authority returns a pool that contains only the CA that the agent joined.
func (i Identity) Authority() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.CA)
	return pool
}
