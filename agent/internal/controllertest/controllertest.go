// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"bicast/agent/trust"
	"bicast/api/agentv1"
)

// Patience bounds every wait. It is long because the machine may be loaded.
const Patience = time.Minute

// Controller is a controller for tests. It listens at Sessions and Enrolment on the loopback.
type Controller struct {
	t          testing.TB
	Authority  *Authority
	Shows      tls.Certificate // its certificate
	Sessions   string
	Enrolment  string
	Advertised string // host in the answer to a join, "" for none

	mutex  sync.Mutex
	asked  int
	tokens map[string]string // secret to name
	visits chan *Visit
	stop   []func()
}

// New returns a controller that serves until the test ends.
func New(t testing.TB) *Controller {
	t.Helper()
	authority := NewAuthority(t)
	b := &Controller{
		t: t, Authority: authority, Shows: authority.Controller(nil), Sessions: "127.0.0.1:0", Enrolment: "127.0.0.1:0",
		tokens: map[string]string{}, visits: make(chan *Visit, 64),
	}
	b.Start()
	t.Cleanup(b.Stop)
	return b
}

// Start serves at the same addresses as before.
func (b *Controller) Start() {
	b.t.Helper()
	clients := x509.NewCertPool()
	clients.AddCert(b.Authority.Certificate)
	shows := []tls.Certificate{b.Shows}
	b.Sessions = b.serve(b.Sessions, b.session, &tls.Config{
		Certificates: shows, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	b.Enrolment = b.serve(b.Enrolment, b.enrol, &tls.Config{Certificates: shows})
}

// Stop ends every session as abruptly as a killed process, without TLS's close_notify.
func (b *Controller) Stop() {
	for _, stop := range b.stop {
		stop()
	}
	b.stop = nil
}

// serve calls handle for each connection, with a channel that Stop closes.
func (b *Controller) serve(address string, handle func(*tls.Conn, <-chan struct{}), config *tls.Config) string {
	b.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Add(1)
	go func() {
		defer running.Done()
		for {
			plain, err := listener.Accept()
			if err != nil {
				return
			}
			running.Add(1)
			go func() {
				defer running.Done()
				defer plain.Close()
				defer context.AfterFunc(ctx, func() { plain.Close() })()
				if conn := tls.Server(plain, config); conn.Handshake() == nil {
					handle(conn, ctx.Done())
				}
			}()
		}
	}()
	b.stop = append(b.stop, func() {
		stop()
		listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// Token returns what `bicast enroll` would print.
func (b *Controller) Token(name string) trust.Token {
	raw := make([]byte, 16)
	rand.Read(raw)
	secret := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.tokens[secret] = name
	return trust.Token{Secret: secret, Pin: b.Authority.Pin()}
}

func (b *Controller) enrol(conn *tls.Conn, _ <-chan struct{}) {
	request := &agentv1.JoinRequest{}
	if protodelim.UnmarshalFrom(bufio.NewReader(conn), request) == nil {
		protodelim.MarshalTo(conn, b.join(request))
	}
	conn.Close()
}

// join answers a request. A token is valid once, for one name.
func (b *Controller) join(request *agentv1.JoinRequest) *agentv1.JoinAnswer {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.asked++
	name, known := b.tokens[request.GetToken()]
	delete(b.tokens, request.GetToken())
	if !known || name != request.GetName() {
		return refusal(agentv1.End_CREDENTIAL, "the token is unknown, used, expired or another name's")
	}
	signingRequest, err := x509.ParseCertificateRequest(request.GetSigningRequest())
	if err != nil || signingRequest.CheckSignature() != nil || signingRequest.Subject.CommonName != name {
		return refusal(agentv1.End_REFUSED, "the signing request is invalid")
	}
	_, port, err := net.SplitHostPort(b.Sessions)
	if err != nil {
		return refusal(agentv1.End_PASSING, err.Error())
	}
	return &agentv1.JoinAnswer{Payload: &agentv1.JoinAnswer_Joined{Joined: &agentv1.JoinReply{
		Certificate: b.Authority.Agent(name, signingRequest.PublicKey).Raw, Ca: b.Authority.Certificate.Raw, Session: net.JoinHostPort(b.Advertised, port),
	}}}
}

func refusal(cause agentv1.End_Cause, reason string) *agentv1.JoinAnswer {
	return &agentv1.JoinAnswer{Payload: &agentv1.JoinAnswer_Refused{Refused: &agentv1.End{Cause: cause, Reason: reason}}}
}

// Asked returns the number of answered join requests.
func (b *Controller) Asked() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.asked
}

// Directory returns the state directory of an enrolled agent.
func (b *Controller) Directory(name string) string {
	b.t.Helper()
	directory := b.t.TempDir()
	if err := b.Authority.Identity(name, b.Sessions).Save(directory); err != nil {
		b.t.Fatal(err)
	}
	return directory
}
