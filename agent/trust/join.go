// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
)

// maxAnswer is above any answer: two certificates, or a reason.
const maxAnswer = 64 << 10

// Join requests a certificate from the controller at host:port. The new key never leaves this host.
func Join(ctx context.Context, address, name string, token Token) (Identity, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return Identity{}, fmt.Errorf("invalid address %q of a controller, expected HOST:PORT as `bicast enroll` prints it", address)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
	signing, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return Identity{}, fmt.Errorf("cannot request a certificate for the name %q: %w", name, err)
	}
	wish := &agentv1.JoinRequest{Name: name, Token: token.Secret, SigningRequest: signing}
	reply, err := ask(ctx, address, token.Pin, wish)
	if hungUp := (closedEarly{}); errors.As(err, &hungUp) { // a controller under load disconnects unauthenticated peers
		reply, err = ask(ctx, address, token.Pin, wish)
		if refused := (tokenRefused{}); errors.As(err, &refused) {
			err = fmt.Errorf("%w; the first attempt ended without an answer and may have used the token: "+
				"run `bicast enroll %s` on the controller for a new one", err, name)
		}
	}
	if err != nil {
		return Identity{}, err
	}
	identity, err := accept(reply, token.Pin)
	if err != nil {
		return Identity{}, fmt.Errorf("invalid answer of the controller at %s: %w", address, err)
	}
	identity.Name, identity.Key = name, key
	// A name stays true when the controller's address changes.
	sessionHost, port, _ := net.SplitHostPort(identity.Session)
	if _, notLiteral := netip.ParseAddr(host); sessionHost == "" || notLiteral != nil {
		identity.Session = net.JoinHostPort(host, port)
	}
	if err := identity.check(); err != nil {
		return Identity{}, fmt.Errorf("invalid answer of the controller at %s: %w", address, err)
	}
	return identity, nil
}

func ask(ctx context.Context, address string, pin Pin, request *agentv1.JoinRequest) (*agentv1.JoinReply, error) {
	conn, err := connect(ctx, address, pin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	// The secret is sent over this connection and no other.
	_, err = protodelim.MarshalTo(conn, request)
	answer := &agentv1.JoinAnswer{}
	if err == nil {
		err = protodelim.UnmarshalOptions{MaxSize: maxAnswer}.UnmarshalFrom(bufio.NewReader(conn), answer)
	}
	switch joined, refused := answer.GetJoined(), answer.GetRefused(); {
	case errors.Is(err, proto.Error):
		return nil, fmt.Errorf("invalid answer of the controller at %s: %w", address, err)
	case err != nil:
		silent := fmt.Errorf("the controller at %s closed the connection or sent no answer: check that the address is "+
			"controller.agents.join of its gateway.yaml, and not controller.agents.listen", address)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, silent
		}
		return nil, closedEarly{silent}
	case joined != nil:
		return joined, nil
	case refused == nil:
		return nil, fmt.Errorf("the controller at %s sent an answer of unknown type: install the agent of its version", address)
	case refused.GetCause() == agentv1.End_CREDENTIAL:
		return nil, tokenRefused{refused.GetReason()}
	case refused.GetCause() == agentv1.End_PASSING:
		return nil, fmt.Errorf("the controller at %s cannot enrol agents now: %s", address, refused.GetReason())
	default:
		return nil, fmt.Errorf("the controller at %s refused the request: %s", address, refused.GetReason())
	}
}

// closedEarly means that the peer ended the connection before its answer.
type closedEarly struct{ error }

// tokenRefused means that the controller refused the token.
type tokenRefused struct{ said string }

func (t tokenRefused) Error() string { return "the controller refused the token: " + t.said }

func accept(reply *agentv1.JoinReply, pin Pin) (Identity, error) {
	if sha256.Sum256(reply.GetCa()) != pin {
		return Identity{}, errors.New("its CA has another fingerprint than the token")
	}
	ca, err := x509.ParseCertificate(reply.GetCa())
	if err != nil {
		return Identity{}, fmt.Errorf("invalid certificate of its CA: %w", err)
	}
	certificate, err := x509.ParseCertificate(reply.GetCertificate())
	if err != nil {
		return Identity{}, fmt.Errorf("invalid certificate: %w", err)
	}
	if _, _, err := net.SplitHostPort(reply.GetSession()); err != nil {
		return Identity{}, fmt.Errorf("address of its sessions %q, expected HOST:PORT", reply.GetSession())
	}
	return Identity{Session: reply.GetSession(), CA: ca, Certificate: certificate}, nil
}
