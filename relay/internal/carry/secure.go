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

const refusalBytes = 200 // of a refusal that comes before anything was asked for

// Secure is TLS 1.3 over MPTCP (or TCP), between a gateway and a relay. Its half-close is close_notify (RFC 8446, section
// 6.1); whatever ends without that was cut off.
type Secure struct {
	*tls.Conn
	wire *wire
}

// Client is the gateway's side.
func Client(conn *net.TCPConn, config *tls.Config) *Secure {
	wire := wireOf(conn)
	return &Secure{tls.Client(wire, config), wire}
}

// Server is the relay's.
func Server(conn *net.TCPConn, config *tls.Config) *Secure {
	wire := wireOf(conn)
	return &Secure{tls.Server(wire, config), wire}
}

// Handshake is bounded by a time.
func (s *Secure) Handshake(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.HandshakeContext(ctx)
}

// Peer is who is there, after the handshake.
func (s *Secure) Peer() *x509.Certificate { return s.ConnectionState().PeerCertificates[0] }

// Write makes records, which Flush sends at once.
func (s *Secure) Write(b []byte) (int, error) {
	s.wire.gather()
	return s.Conn.Write(b)
}

// Flush sends them.
func (s *Secure) Flush() error { return s.wire.send() }

// Send is Write and Flush.
func (s *Secure) Send(b []byte) error {
	_, err := s.Write(b)
	return errors.Join(err, s.Flush())
}

// CloseWrite sends what was written, and that it is all.
func (s *Secure) CloseWrite() error { return errors.Join(s.Flush(), s.Conn.CloseWrite()) }

// Close is for both ways having ended.
func (s *Secure) Close() error { return finish(s.wire.TCPConn) }

// Reset cuts it off, without a word of TLS.
func (s *Secure) Reset() { s.wire.TCPConn.Close() }

// Lost tells whether it was reset.
func (s *Secure) Lost() bool { return lost(s.wire.TCPConn) }

// Unsent is always so: what its peer has taken is still to go to somebody else.
func (s *Secure) Unsent() bool { return true }

// Welcomed waits until a relay has taken the certificate that it was shown: in TLS 1.3 the handshake ends before that at
// the gateway. A session ticket is how the relay says so, an alert how it says no.
func (s *Secure) Welcomed(within time.Duration) error {
	s.SetReadDeadline(time.Now().Add(within))
	if !s.Stirs() {
		return os.ErrDeadlineExceeded
	}
	s.wire.there = true
	said := make([]byte, refusalBytes)
	n, err := s.Conn.Read(said)
	s.wire.there = false
	switch {
	case n > 0:
		return fmt.Errorf("it refuses what is opened: %q", said[:n])
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return errors.Join(errors.New("it lets nobody in who shows this certificate"), err)
	}
	return s.SetReadDeadline(time.Time{})
}

// Stirs waits until something comes or the connection ends; false at a deadline for reading.
func (s *Secure) Stirs() bool {
	raw, err := s.wire.SyscallConn()
	if err != nil {
		return true
	}
	return raw.Read(readable) == nil
}

// wire is what TLS runs over. crypto/tls writes also while it reads: alerts, and new keys.
type wire struct {
	*net.TCPConn
	mutex    sync.Mutex
	room     *[gatherBytes]byte // nil: what is written is sent; else it waits for send
	gathered []byte
	there    bool // only what is there already is read
}

// Room for what is written at once, in records, each with header, type and tag; where records are small, it is sent in parts.
const gatherBytes = lentBytes + 4<<10

var gathers = sync.Pool{New: func() any { return new([gatherBytes]byte) }}

func wireOf(conn *net.TCPConn) *wire {
	conn.SetLinger(0)
	return &wire{TCPConn: conn}
}

// Read tells an end of TCP from an end of TLS: crypto/tls takes both for the same between two records.
func (w *wire) Read(b []byte) (int, error) {
	var n int
	var err error
	if w.there {
		n, err = there(w.TCPConn, b)
	} else {
		n, err = w.TCPConn.Read(b)
	}
	if errors.Is(err, io.EOF) {
		err = ErrCut
	}
	return n, err
}

// SetWriteDeadline does nothing: crypto/tls gives close_notify 5 s, and who reads slowly may take longer.
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
