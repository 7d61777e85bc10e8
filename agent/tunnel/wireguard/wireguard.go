// SPDX-License-Identifier: Apache-2.0

// Package wireguard configures a WireGuard device with one peer. The kernel runs the device, or this process if the kernel
// has no WireGuard.
package wireguard

import (
	"crypto/ecdh"
	"net/netip"
)

// KeyBytes is the length of all keys.
const KeyBytes = 32

// Key is a private, public or preshared key of X25519.
type Key [KeyBytes]byte

// Config is the complete state of a device. Setting it again keeps the session with the same peer.
type Config struct {
	Private    Key
	ListenPort uint16
	Mark       uint32 // of the packets that leave; 0: none
	Peer       Peer
}

// Peer is the other end. Without a public key there is none.
type Peer struct {
	Public    Key
	Preshared Key
	Endpoint  netip.AddrPort // not valid: the peer's authentic packets show it
	Inside    netip.Addr     // the only address that it has in the tunnel
}

// Device is an open device. It outlives Close.
type Device interface {
	Set(Config) error
	// Forget ends the session with the peer, and forgets how late its last handshake was: a clock may have been set back.
	Forget() error
	// Session returns what is known of the peer.
	Session() (Session, error)
	// Return sends to the configured endpoint again, wherever the peer's last authentic packet came from.
	Return() error
	// Hurry begins a handshake now. The kernel begins one after 15 s without an answer.
	Hurry()
	Close() error
}

// Session is the state of the peer.
type Session struct {
	Endpoint netip.AddrPort // from which its last authentic packet came; not valid: none
	Begun    bool           // a handshake was completed
}

// Public returns the public key of a private key.
func Public(private Key) (Key, error) {
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return Key{}, err
	}
	return Key(key.PublicKey().Bytes()), nil
}
