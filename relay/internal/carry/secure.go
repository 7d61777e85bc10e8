// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const refusalBytes = 200 // limit of a refusal that comes before a request

// Secure is TLS 1.3 over MPTCP or TCP, between a gateway and a relay. Its half-close is close_notify (RFC 8446, section
// 6.1); an end without it counts as a reset.
type Secure struct {
	*tls.Conn
	wire *wire
}

// Client returns the gateway's side.
func Client(conn *net.TCPConn, config *tls.Config) *Secure {
	wire := wireOf(conn)
	return &Secure{tls.Client(wire, config), wire}
}

// Server returns the relay's side.
func Server(conn *net.TCPConn, config *tls.Config) *Secure {
	wire := wireOf(conn)
	return &Secure{tls.Server(wire, config), wire}
}

// Handshake performs the handshake within a time limit.
func (s *Secure) Handshake(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.HandshakeContext(ctx)
}

// Peer returns the peer's certificate, after the handshake.
func (s *Secure) Peer() *x509.Certificate { return s.ConnectionState().PeerCertificates[0] }

// Write buffers records; Flush sends them together.
func (s *Secure) Write(b []byte) (int, error) {
	s.wire.gather()
	return s.Conn.Write(b)
}

// Flush sends the buffered records.
func (s *Secure) Flush() error { return s.wire.send() }

// Send calls Write and Flush.
func (s *Secure) Send(b []byte) error {
	_, err := s.Write(b)
	return errors.Join(err, s.Flush())
}

// CloseWrite sends the buffered data and close_notify.
func (s *Secure) CloseWrite() error { return errors.Join(s.Flush(), s.Conn.CloseWrite()) }

// Close closes the connection after both directions have ended.
func (s *Secure) Close() error { return closeGracefully(s.wire.TCPConn) }

// Reset resets the connection, without a TLS alert.
func (s *Secure) Reset() { s.wire.TCPConn.Close() }

// IsReset tells whether the peer has reset the connection.
func (s *Secure) IsReset() bool { return wasReset(s.wire.TCPConn) }

// HasUnsent is always true: the peer still has to forward what it acknowledged.
func (s *Secure) HasUnsent() bool { return true }

// AwaitAcceptance waits until a relay has accepted our certificate: in TLS 1.3 the client's handshake ends before that.
// The relay signals acceptance by a session ticket, refusal by an alert.
func (s *Secure) AwaitAcceptance(within time.Duration) error {
	s.SetReadDeadline(time.Now().Add(within))
	if !s.AwaitData() {
		return os.ErrDeadlineExceeded
	}
	s.wire.available = true
	said := make([]byte, refusalBytes)
	n, err := s.Conn.Read(said)
	s.wire.available = false
	switch {
	case n > 0:
		return fmt.Errorf("the relay refuses the connection: %q", said[:n])
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return errors.Join(errors.New("the relay does not accept this certificate"), err)
	}
	return s.SetReadDeadline(time.Time{})
}

// AwaitData waits until data comes or the connection ends, and returns false at the read deadline.
func (s *Secure) AwaitData() bool {
	raw, err := s.wire.SyscallConn()
	if err != nil {
		return true
	}
	return raw.Read(readable) == nil
}

// wire is the connection below TLS. crypto/tls also writes while it reads: alerts and key updates.
type wire struct {
	*net.TCPConn
	mutex     sync.Mutex
	room      *[gatherBytes]byte // nil: Write sends at once; otherwise it buffers
	gathered  []byte
	available bool // read without waiting
}

// Buffer for data written at once, in records with header, type and tag. With small records it is sent in parts.
const gatherBytes = busyBytes + 4<<10

var gathers = sync.Pool{New: func() any { return new([gatherBytes]byte) }}

func wireOf(conn *net.TCPConn) *wire {
	conn.SetLinger(0)
	return &wire{TCPConn: conn}
}

// Read reports an end of TCP as ErrCut: between records crypto/tls does not distinguish it from an end of TLS.
func (w *wire) Read(b []byte) (int, error) {
	var n int
	var err error
	if w.available {
		n, err = available(w.TCPConn, b)
	} else {
		n, err = w.TCPConn.Read(b)
	}
	if errors.Is(err, io.EOF) {
		err = ErrCut
	}
	return n, err
}

// SetWriteDeadline does nothing: crypto/tls limits close_notify to 5 s, which is too short for a slow reader.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) Write(b []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.room == nil {
		return w.TCPConn.Write(b)
	}
	if len(w.gathered)+len(b) > gatherBytes {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	w.gathered = append(w.gathered, b...)
	return len(b), nil
}

func (w *wire) gather() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.room == nil {
		w.room = gathers.Get().(*[gatherBytes]byte)
		w.gathered = w.room[:0]
	}
}

func (w *wire) flush() error {
	if len(w.gathered) == 0 {
		return nil
	}
	_, err := w.TCPConn.Write(w.gathered)
	w.gathered = w.room[:0]
	return err
}

func (w *wire) send() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.room == nil {
		return nil
	}
	err := w.flush()
	gathers.Put(w.room)
	w.room, w.gathered = nil, nil
	return err
}
