// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"bicast/internal/admission"
)

const (
	leastKey    = 16  // bytes
	mostASecond = 100 // answers of a session, and at once: ten times what a sender of ours sends
)

// Session is one sender that a Session-Reflector answers.
type Session struct {
	ID       uint16     // RFC 8972's, of authenticated packets; 0 for a sender that knows none
	Key      []byte     // nil: not authenticated
	From     netip.Addr // must be said without a key; with one it may be left out: it is then where the highest number is from
	Stateful bool       // answers are counted by themselves, which tells in which direction packets were lost
}

// Counts is what a Session-Reflector did with packets.
type Counts struct {
	Answered, Short, Strange, Forged, Replayed, TooMany uint64
}

// authenticator knows whom to answer. A wrong packet costs one HMAC at most and changes nothing but a count.
type authenticator struct {
	port      uint16 // its own
	byID      map[uint16]*sender
	byAddress map[netip.Addr]*sender
	counts    Counts
}

// sender is a session and what came of it.
type sender struct {
	Session
	at      netip.AddrPort // where the packet with the highest number is from
	seen    admission.Once
	answers uint32
	left    admission.Budget // of answers
}

func newAuthenticator(port uint16) authenticator {
	return authenticator{port: port, byID: map[uint16]*sender{}, byAddress: map[netip.Addr]*sender{}}
}

func (d *authenticator) open(s Session) error {
	s.From = s.From.Unmap()
	switch {
	case s.Key == nil && !s.From.IsValid():
		return errors.New("a session without a key must say the address that it answers, or everybody could have it send to others")
	case s.Key != nil && len(s.Key) < leastKey:
		return fmt.Errorf("session %d: its key has %d bytes, expected at least %d", s.ID, len(s.Key), leastKey)
	}
	made := &sender{Session: s, left: admission.Full(mostASecond, mostASecond)}
	if s.Key == nil {
		d.byAddress[s.From] = made
	} else {
		d.byID[s.ID] = made
	}
	return nil
}

func (d *authenticator) drop(s Session) {
	if s.Key == nil {
		delete(d.byAddress, s.From.Unmap())
	} else {
		delete(d.byID, s.ID)
	}
}

// answer is what a packet is answered with, but for the time when that leaves; false: with nothing.
func (d *authenticator) answer(now time.Duration, from netip.AddrPort, b []byte) (*sender, Answer, bool) {
	s, p, counted := d.judge(now, from, b)
	*counted++
	if counted != &d.counts.Answered {
		return nil, Answer{}, false
	}
	answer := Answer{Packet: Packet{Number: p.Number, Session: p.Session}, To: p}
	if s.Stateful {
		answer.Number = s.answers
	}
	s.answers++
	return s, answer, true
}

// judge tells under what a packet is counted.
func (d *authenticator) judge(now time.Duration, from netip.AddrPort, b []byte) (*sender, Packet, *uint64) {
	if len(b) < plain.length {
		return nil, Packet{}, &d.counts.Short
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	s, p, ok := d.sender(from.Addr(), b)
	switch {
	case s == nil:
		return nil, Packet{}, &d.counts.Strange
	case !ok:
		return nil, Packet{}, &d.counts.Forged
	case s.From.IsValid() && s.From != from.Addr():
		return nil, Packet{}, &d.counts.Strange
	case s.Key == nil && from.Port() == d.port: // it may be another reflector's answer, and ours would be answered, too
		return nil, Packet{}, &d.counts.Strange
	case s.Key != nil && !s.seen.Fresh(p.Number):
		return nil, Packet{}, &d.counts.Replayed
	case s.Key != nil && !s.seen.Latest(p.Number) && from != s.at:
		return nil, Packet{}, &d.counts.Strange
	case !s.left.Take(now):
		return nil, Packet{}, &d.counts.TooMany
	}
	s.at = from
	s.seen.Pass(p.Number)
	return s, p, &d.counts.Answered
}

// sender is whose session a packet is of, and whether it is genuine. An address with a session without a key may have others.
func (d *authenticator) sender(from netip.Addr, b []byte) (s *sender, p Packet, ok bool) {
	if len(b) >= authenticated.length {
		if s = d.byID[packet(b, authenticated).Session]; s != nil {
			p, ok = OpenPacket(s.Key, b)
		}
	}
	if plainly := d.byAddress[from]; plainly != nil && !ok {
		s = plainly
		p, ok = OpenPacket(nil, b)
	}
	return s, p, ok
}
