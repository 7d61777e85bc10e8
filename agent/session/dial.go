// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protodelim"

	"bicast/agent/trust"
	"bicast/agent/uplink"
	"bicast/api/agentv1"
)

const (
	addressesFile   = "addresses.json"
	connectWithin   = 5 * time.Second // over any uplink: the name, TCP and TLS together
	idleBeforeProbe = 10 * time.Second
	peerTimeout     = 5 * time.Second  // of unacknowledged data and probes, which the controller's kernel acknowledges
	sendTimeout     = 15 * time.Second // for a controller that keeps the connection but does not read
	mostReceived    = 256 << 10        // above any order
	buffer          = 8 << 10
)

// Wire is the connection of one session. One goroutine sends at a time, and one receives. Close unblocks both.
type Wire interface {
	Send(*agentv1.FromAgent) error
	Recv() (*agentv1.FromController, error)
	Close() error
}

// Dialer returns a function that connects to the controller with the current identity in the directory.
func Dialer(directory string) func(context.Context) (Wire, error) {
	return func(ctx context.Context) (Wire, error) {
		identity, err := trust.Load(directory)
		if err != nil {
			return nil, noIdentity{err}
		}
		ctx, cancel := context.WithTimeout(ctx, connectWithin)
		defer cancel()
		dialer := uplink.Dialer{
			KeepAlive: net.KeepAliveConfig{Enable: true, Idle: idleBeforeProbe, Interval: peerTimeout, Count: 1},
			Control:   limitUnacknowledged,
			Proven:    uplink.Proven(filepath.Join(directory, addressesFile)),
			Greet:     uplink.TLS(identity.Mutual()),
		}
		conn, err := dialer.Dial(ctx, identity.Session)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", connectWithin)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot connect to the controller at %s: %w", identity.Session, withoutAddresses(err))
		}
		return &tlsWire{conn, bufio.NewReaderSize(conn, buffer), bufio.NewWriterSize(conn, buffer)}, nil
	}
}

// noIdentity means that this host has no valid identity. A person has to join it.
type noIdentity struct{ error }

func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(peerTimeout.Milliseconds()))
	})
	return errors.Join(err, failed)
}

// tlsWire precedes each message with its length as a varint.
type tlsWire struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
}

func (w *tlsWire) Send(message *agentv1.FromAgent) error {
	w.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := protodelim.MarshalTo(w.out, message)
	if err == nil {
		err = w.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("cannot send to the controller: %w", withoutAddresses(err))
	}
	return nil
}

func (w *tlsWire) Recv() (*agentv1.FromController, error) {
	message := &agentv1.FromController{}
	if err := (protodelim.UnmarshalOptions{MaxSize: mostReceived}).UnmarshalFrom(w.in, message); err != nil {
		return nil, fmt.Errorf("cannot read from the controller: %w", withoutAddresses(err))
	}
	return message, nil
}

func (w *tlsWire) Close() error {
	w.conn.SetReadDeadline(time.Now()) // the close of TLS takes up to 5 s if the controller does not read
	return w.conn.Close()
}

// withoutAddresses removes the addresses from an error. The local port differs each time, and the session logs a repeated
// error once.
func withoutAddresses(err error) error {
	if failed := (*net.OpError)(nil); errors.As(err, &failed) && failed.Op != "remote error" { // an alert of TLS
		return failed.Err
	}
	return err
}
