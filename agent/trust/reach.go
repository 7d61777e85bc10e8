// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"bicast/agent/uplink"
)

// connectWithin is for the name, TCP and TLS together, over any uplink.
const connectWithin = 20 * time.Second

// connect connects to the controller that printed a token.
func connect(ctx context.Context, address string, pin Pin) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	conn, err := uplink.Dialer{Greet: uplink.TLS(pinned(pin))}.Dial(ctx, address)
	if errors.As(err, &uplink.Unanswered{}) {
		return nil, fmt.Errorf("nobody answers at %s (%w): check that the controller runs, and that controller.agents.join of its "+
			"gateway.yaml is an address that this host can reach", address, rootCause(err))
	}
	if err != nil {
		return nil, handshakeError(address, err)
	}
	return conn, nil
}

// handshakeError explains a failed TLS handshake.
func handshakeError(address string, err error) error {
	var noTLS tls.RecordHeaderError
	var unproven *verificationError
	why := err.Error()
	switch {
	case errors.As(err, &unproven):
		return fmt.Errorf("the peer at %s did not get the token: %w", address, unproven)
	case errors.As(err, &noTLS):
		why = "it does not speak TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return closedEarly{wrongPeer(address, "it closed the connection before it showed a certificate")}
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("it did not complete the TLS handshake within %v", connectWithin)
	}
	return wrongPeer(address, why)
}

func wrongPeer(address, why string) error {
	return fmt.Errorf("the peer at %s is not the controller (%s): use the address that `bicast enroll` prints, which is "+
		"controller.agents.join of its gateway.yaml", address, why)
}

// rootCause returns the innermost reason: the message around it contains the address.
func rootCause(err error) error {
	var number syscall.Errno
	var unknown *net.DNSError
	var late net.Error
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &unknown):
		return fmt.Errorf("%s: %s", unknown.Name, unknown.Err)
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("not within %v", connectWithin)
	default:
		return err
	}
}
