// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"bicast/agent/trust"
	"bicast/api/agentv1"
)

// Patience bounds every wait. It is long because the machine may be loaded.
const Patience = time.Minute

// Controller is a controller for tests. It listens at Sessions and Enrolment on the loopback.
type Controller struct {
	agentv1.UnimplementedAgentsServer
	agentv1.UnimplementedEnrolmentServer

	t         testing.TB
	Authority *Authority
	Shows     tls.Certificate // its certificate
	Sessions  string
	Enrolment string

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
	b.Sessions = b.serve(b.Sessions, &tls.Config{
		Certificates: shows, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	}, func(s *grpc.Server) { agentv1.RegisterAgentsServer(s, b) })
	b.Enrolment = b.serve(b.Enrolment, &tls.Config{Certificates: shows}, func(s *grpc.Server) {
		agentv1.RegisterEnrolmentServer(s, b)
	})
}

// Stop ends every session as abruptly as a killed process.
func (b *Controller) Stop() {
	for _, stop := range b.stop {
		stop()
	}
	b.stop = nil
}

func (b *Controller) serve(address string, config *tls.Config, register func(*grpc.Server)) string {
	b.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		b.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.ForceServerCodec(codec{}))
	register(server)
	go server.Serve(listener)
	b.stop = append(b.stop, func() {
		server.Stop()
		listener.Close() // in case Serve has not started yet
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

// Join implements agentv1.EnrolmentServer: a token is valid once, for one name.
func (b *Controller) Join(_ context.Context, request *agentv1.JoinRequest) (*agentv1.JoinReply, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.asked++
	name, known := b.tokens[request.GetToken()]
	delete(b.tokens, request.GetToken())
	if !known || name != request.GetName() {
		return nil, status.Error(codes.Unauthenticated, "the token is unknown, used, expired or another name's")
	}
	signingRequest, err := x509.ParseCertificateRequest(request.GetSigningRequest())
	if err != nil || signingRequest.CheckSignature() != nil || signingRequest.Subject.CommonName != name {
		return nil, status.Error(codes.InvalidArgument, "the signing request is invalid")
	}
	_, port, err := net.SplitHostPort(b.Sessions)
	return &agentv1.JoinReply{
		Certificate: b.Authority.Agent(name, signingRequest.PublicKey).Raw, Ca: b.Authority.Certificate.Raw, Session: ":" + port,
	}, err
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
