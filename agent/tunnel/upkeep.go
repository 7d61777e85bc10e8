// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"bicast/agent/tunnel/wireguard"
)

const (
	smallestMTU = 68                // bytes: the minimum of Linux (ETH_MIN_MTU)
	messagePort = 891               // UDP, in the WireGuard device
	lateAfter   = askEvery * 3 / 2  // a question's answer
	beginAfter  = 2 * time.Second   // without a session, at first
	forgetAfter = 180 * time.Second // without a message no key of a session is valid any more
)

func (t *tunnel) trouble() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.reason
}

// tend maintains the devices, which may have gone, and the way of the encrypted packets.
func (t *tunnel) tend() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.over {
		return
	}
	err := t.ensureDevices()
	if err == nil {
		err = t.followPeer()
	}
	t.setFailure(err)
}

// setFailure logs a change of the tunnel's failure once.
func (t *tunnel) setFailure(err error) {
	before := t.reason
	t.reason = err
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		t.log.Warn("the tunnel is down", "reason", err)
	case err == nil && before != nil:
		t.log.Info("the tunnel is ready")
	}
}

func (t *tunnel) ensureDevices() error {
	k := t.host.kernel
	underlay, w, err := k.wayTo(t.order.GetDevice(), t.peer.Addr())
	if err != nil {
		return err
	}
	if underlay != 0 {
		if err := k.steer(numberOf(t.order), t.peer.Addr(), w); err != nil {
			return err
		}
	}
	outerMTU, mtu := w.mtus(t.peer.Addr())
	if err := t.ensureOuter(outerMTU); err != nil {
		return err
	}
	found, err := k.ensureInner(t.spec(), mtu)
	if err != nil {
		return err
	}
	t.device = found
	t.showToBridge(found)
	t.end.Ceiling(mtu)
	if w != t.way {
		t.way = w
		t.end.Changed(t.host.now())
		t.wakeUp()
	}
	return nil
}

func (t *tunnel) spec() spec {
	return spec{name: t.order.GetPort(), vni: t.order.GetVni(), under: t.outer.link.index, starts: t.starts()}
}

// ensureOuter makes or opens the WireGuard device, and the socket in it.
func (t *tunnel) ensureOuter(mtu int) error {
	k := t.host.kernel
	name := outerName(t.order.GetVni())
	found, there, err := find(k.outer, name, 0)
	if err != nil {
		return err
	}
	switch {
	case !there || found.index != t.outer.link.index || t.socket == nil:
		if err := t.openOuter(mtu); err != nil {
			return errors.Join(err, t.outer.close())
		}
		return t.openSocket()
	case !found.up || found.mtu != mtu:
		return setUp(k.outer, found, mtu)
	}
	return nil
}

func (t *tunnel) openOuter(mtu int) error {
	if err := t.outer.close(); err != nil {
		return err
	}
	opened, err := t.host.kernel.openOuter(t.order, mtu, t.log)
	if err != nil {
		return err
	}
	t.outer = opened
	private, err := t.host.private(numberOf(t.order))
	if err != nil {
		return err
	}
	config := wireguard.Config{Private: private, ListenPort: uint16(t.order.GetUdpPort())}
	if t.order.GetDevice() != "" {
		config.Mark = markOf(numberOf(t.order))
	}
	config.Peer = wireguard.Peer{Preshared: wireguard.Key(t.order.GetKey()), Endpoint: t.remote(), Inside: insideOf(!t.starts())}
	if key := t.order.GetPeerKey(); len(key) == wireguard.KeyBytes {
		config.Peer.Public = wireguard.Key(key)
	}
	if t.order.GetClear() {
		t.log.Warn("this tunnel is not encrypted: anyone on its path can read and change packets")
	}
	return t.host.outside(func() error { return opened.Set(config) })
}

func (t *tunnel) openSocket() error {
	if err := t.closeSocket(); err != nil {
		return err
	}
	zone := strconv.Itoa(t.outer.link.index) // Go remembers the indices of names
	at := func(starts bool) *net.UDPAddr {
		return &net.UDPAddr{IP: insideOf(starts).AsSlice(), Port: messagePort, Zone: zone}
	}
	err := t.host.outside(func() (err error) {
		t.socket, err = net.DialUDP("udp6", at(t.starts()), at(!t.starts()))
		return err
	})
	if err != nil {
		t.socket = nil
		return fmt.Errorf("cannot open a socket in %s: %w", t.outer.link.name, err)
	}
	t.receive(t.socket)
	return nil
}

// followPeer reads where the other end is, and mends a session that WireGuard itself would mend later.
func (t *tunnel) followPeer() error {
	now := t.host.now()
	silence, ever := t.end.Silence(now)
	session, err := t.outer.Session()
	if err != nil {
		return err
	}
	again := forgetAfter
	if t.starts() && !session.Begun {
		again = min(t.patience, forgetAfter)
	}
	switch {
	case silence > again && now-t.forgot > again:
		t.forgot, t.patience = now, t.patience*2 // a handshake needs a round trip, which may be long
		return t.outer.Forget()                  // so that the next question begins a handshake at once
	case t.starts() && silence > deadAfter && session.Endpoint != t.remote() && session.Endpoint.IsValid():
		return t.outer.Return() // somebody relayed packets of the other end, and is gone
	case t.starts():
		if silence > lateAfter {
			t.outer.Hurry()
		}
		return nil
	}
	at := session.Endpoint
	if !at.IsValid() || at == t.peer {
		return nil
	}
	if ever && t.peer.IsValid() {
		t.end.Moved()
	}
	t.peer = at
	t.log.Info("the other end is connected", "address", at)
	return nil
}

// showToBridge makes the bridge of the port read the device, also one that another program made.
func (t *tunnel) showToBridge(d device) {
	if d.index == t.showing || t.host.kernel.read(d) {
		return
	}
	t.showing = d.index
	t.parts.Add(1)
	go func() {
		defer t.parts.Done()
		t.host.kernel.reopened(t.ctx, d, t.log)
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if t.showing == d.index {
			t.showing = 0
		}
	}()
}
