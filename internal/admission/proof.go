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

// Lasts is the minimum lifetime of a nonce; the maximum is twice as long.
const Lasts = 10 * time.Second

// Nonce is sent to an address. Only a host that receives packets there can return it.
type Nonce [16]byte

// Proof proves source addresses: it recognizes the nonces that it issued to an address for a session. It stores nothing
// per address, so a flood of requests cannot exhaust its memory.
type Proof struct {
	secret [sha256.Size]byte
	voided uint64
}

// NewProof returns a proof with a random secret.
func NewProof(random io.Reader) Proof {
	var p Proof
	if _, err := io.ReadFull(random, p.secret[:]); err != nil {
		panic(fmt.Sprintf("the source of random numbers ended: %v", err))
	}
	return p
}

// Nonce returns the current nonce of an address.
func (p *Proof) Nonce(now time.Duration, of netip.AddrPort, session uint32) Nonce {
	return p.compute(period(now), of, session)
}

// Knows reports whether this nonce was issued to that address recently and is not void.
func (p *Proof) Knows(now time.Duration, of netip.AddrPort, session uint32, n Nonce) bool {
	for _, each := range []uint64{period(now), period(now) - 1} {
		expected := p.compute(each, of, session)
		if hmac.Equal(n[:], expected[:]) {
			return true
		}
	}
	return false
}

// Void invalidates all nonces.
func (p *Proof) Void() { p.voided++ }

func period(now time.Duration) uint64 { return uint64(now / Lasts) }

func (p *Proof) compute(period uint64, of netip.AddrPort, session uint32) Nonce {
	b := binary.BigEndian.AppendUint64(nil, period)
	b = binary.BigEndian.AppendUint64(b, p.voided)
	b = binary.BigEndian.AppendUint32(b, session)
	b = binary.BigEndian.AppendUint16(b, of.Port())
	address := of.Addr().As16()
	h := hmac.New(sha256.New, p.secret[:])
	h.Write(append(b, address[:]...))
	return Nonce(h.Sum(nil))
}
