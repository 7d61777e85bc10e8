// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// Lasts is how long a nonce is known at least; at most it is twice that.
const Lasts = 10 * time.Second

// Nonce is sent to an address, and comes back from who hears what is sent there.
type Nonce [16]byte

// Proof is of where somebody is: what was handed out to one address for one session is known from there, for some time,
// and of nobody else. Nothing is kept of those who were asked, so there is nothing that many of them could fill.
type Proof struct {
	secret [sha256.Size]byte
	voided uint64
}

// NewProof has a secret of its own, and hands out what no other does.
func NewProof(random io.Reader) Proof {
	var p Proof
	if _, err := io.ReadFull(random, p.secret[:]); err != nil {
		panic(fmt.Sprintf("the source of random numbers ended: %v", err))
	}
	return p
}

// Nonce is what an address is handed just now.
func (p *Proof) Nonce(now time.Duration, of netip.AddrPort, session uint32) Nonce {
	return p.made(turn(now), of, session)
}

// Knows tells whether this was handed to that address not long ago, and not voided since.
func (p *Proof) Knows(now time.Duration, of netip.AddrPort, session uint32, n Nonce) bool {
	for _, each := range []uint64{turn(now), turn(now) - 1} {
		expected := p.made(each, of, session)
		if hmac.Equal(n[:], expected[:]) {
			return true
		}
	}
	return false
}

// Void makes all that was handed out known no longer.
func (p *Proof) Void() { p.voided++ }

func turn(now time.Duration) uint64 { return uint64(now / Lasts) }

func (p *Proof) made(turn uint64, of netip.AddrPort, session uint32) Nonce {
	b := binary.BigEndian.AppendUint64(nil, turn)
	b = binary.BigEndian.AppendUint64(b, p.voided)
	b = binary.BigEndian.AppendUint32(b, session)
	b = binary.BigEndian.AppendUint16(b, of.Port())
	address := of.Addr().As16()
	h := hmac.New(sha256.New, p.secret[:])
	h.Write(append(b, address[:]...))
	return Nonce(h.Sum(nil))
}
