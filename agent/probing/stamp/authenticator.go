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
	minKey           = 16  // bytes
	answersPerSecond = 100 // per session, also the burst: ten times the rate of our sender
)

// Session is one sender that a Session-Reflector answers.
type Session struct {
	ID       uint16     // RFC 8972, in authenticated packets; 0 for a sender without it
	Key      []byte     // nil: unauthenticated mode
	From     netip.Addr // required without a key; otherwise the session follows the address of the highest number
	Stateful bool       // answers have their own numbers, which show the direction of losses
}

// Counts counts the packets of a Session-Reflector by verdict.
type Counts struct {
	Answered, Short, Strange, Forged, Replayed, TooMany uint64
}

// authenticator decides which packets to answer. An invalid packet costs at most one HMAC and changes only a counter.
type authenticator struct {
	port      uint16 // of the reflector
	byID      map[uint16]*sender
	byAddress map[netip.Addr]*sender
	counts    Counts
}

// sender is the state of a session.
type sender struct {
	Session
	at      netip.AddrPort // source of the packet with the highest number
	seen    admission.Once
	answers uint32
	left    admission.Budget // for answers
}

func newAuthenticator(port uint16) authenticator {
	return authenticator{port: port, byID: map[uint16]*sender{}, byAddress: map[netip.Addr]*sender{}}
}

func (d *authenticator) open(s Session) error {
	s.From = s.From.Unmap()
	switch {
	case s.Key == nil && !s.From.IsValid():
		return errors.New("a session without a key needs the address of its sender: with a forged source address, anyone could direct answers to others")
	case s.Key != nil && len(s.Key) < minKey:
		return fmt.Errorf("session %d: its key has %d bytes, expected at least %d", s.ID, len(s.Key), minKey)
	}
	made := &sender{Session: s, left: admission.Full(answersPerSecond, answersPerSecond)}
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

// answer returns the answer to a packet without its sending time, or false.
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

// judge returns the counter for a packet.
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
	case s.Key == nil && from.Port() == d.port: // the packet may be another reflector's answer, and answering it would start a loop
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

// sender returns the session of a packet and whether the packet is genuine. An address may have sessions with and
// without a key.
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
