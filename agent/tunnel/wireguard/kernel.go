// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"fmt"
	"net"
	"net/netip"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// kernel is a device that the kernel runs.
type kernel struct {
	name   string
	client *wgctrl.Client
	set    Config
}

// Kernel opens an existing device of the calling thread's namespace.
func Kernel(name string) (Device, error) {
	client, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("cannot configure WireGuard: %w", err)
	}
	return &kernel{name: name, client: client}, nil
}

func (k *kernel) Set(c Config) error {
	now, err := k.client.Device(k.name)
	if err != nil {
		return k.failure(err)
	}
	peers := make([]wgtypes.PeerConfig, 0, len(now.Peers)+1)
	for _, each := range now.Peers {
		if each.PublicKey != wgtypes.Key(c.Peer.Public) {
			peers = append(peers, wgtypes.PeerConfig{PublicKey: each.PublicKey, Remove: true})
		}
	}
	if c.Peer.Public != (Key{}) {
		peers = append(peers, c.Peer.config())
	}
	private, port, mark := wgtypes.Key(c.Private), int(c.ListenPort), int(c.Mark)
	k.set = c
	return k.failure(k.client.ConfigureDevice(k.name, wgtypes.Config{
		PrivateKey: &private, ListenPort: &port, FirewallMark: &mark, Peers: peers,
	}))
}

func (p Peer) config() wgtypes.PeerConfig {
	preshared := wgtypes.Key(p.Preshared)
	bits := p.Inside.BitLen()
	one := wgtypes.PeerConfig{
		PublicKey: wgtypes.Key(p.Public), PresharedKey: &preshared, ReplaceAllowedIPs: true,
		AllowedIPs: []net.IPNet{{IP: p.Inside.AsSlice(), Mask: net.CIDRMask(bits, bits)}},
	}
	if p.Endpoint.IsValid() {
		one.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
	}
	return one
}

func (k *kernel) Forget() error {
	peer := k.set.Peer
	if peer.Public == (Key{}) {
		return nil
	}
	return k.failure(k.client.ConfigureDevice(k.name, wgtypes.Config{Peers: []wgtypes.PeerConfig{
		{PublicKey: wgtypes.Key(peer.Public), Remove: true}, peer.config(),
	}}))
}

func (k *kernel) Session() (Session, error) {
	now, err := k.client.Device(k.name)
	if err != nil || len(now.Peers) == 0 {
		return Session{}, k.failure(err)
	}
	peer := now.Peers[0]
	session := Session{Begun: !peer.LastHandshakeTime.IsZero()}
	if peer.Endpoint != nil {
		session.Endpoint = unmapped(peer.Endpoint.AddrPort())
	}
	return session, nil
}

func (k *kernel) Return() error {
	peer := k.set.Peer.config()
	peer.UpdateOnly = true
	return k.failure(k.client.ConfigureDevice(k.name, wgtypes.Config{Peers: []wgtypes.PeerConfig{peer}}))
}

func (k *kernel) Hurry() {}

func (k *kernel) Close() error { return k.client.Close() }

func (k *kernel) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot configure the WireGuard device %s: %w", k.name, err)
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
