// SPDX-License-Identifier: Apache-2.0

package mtls_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
)

// Each side in turn is limited to TLS 1.2, and the other, with its real configuration, must refuse it.
func TestPeerWithOlderTLSIsRefused(t *testing.T) {
	authority := mtlstest.New(t)
	serving, err := mtls.Relay(authority.Relay("tokyo"), []string{"home"})
	if err != nil {
		t.Fatal(err)
	}
	calling, err := mtls.Gateway(authority.Gateway("home", time.Hour), "tokyo")
	if err != nil {
		t.Fatal(err)
	}
	if errs := handshake(t, serving, calling); errs[0] != nil || errs[1] != nil {
		t.Fatalf("%v, expected that both agree on TLS 1.3", errs)
	}
	if errs := handshake(t, serving, older(calling)); errs[0] == nil {
		t.Error("the relay takes a gateway that knows TLS 1.2 only")
	}
	if errs := handshake(t, older(serving), calling); errs[1] == nil {
		t.Error("the gateway takes a relay that knows TLS 1.2 only")
	}
}

func older(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return config
}

// handshake returns the errors of server and client.
func handshake(t *testing.T, server, client *tls.Config) [2]error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error)
	go func() {
		far, err := listener.Accept()
		if err == nil {
			defer far.Close()
			err = tls.Server(far, server).Handshake()
		}
		served <- err
	}()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	err = tls.Client(near, client).Handshake()
	return [2]error{<-served, err}
}
