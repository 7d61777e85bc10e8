// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"net/netip"

	"bicast/api/agentv1"
)

const smallestMTU = 68 // bytes: the minimum of Linux (ETH_MIN_MTU)

// setPeer sets the peer's address in the kernel.
func (t *tunnel) setPeer() error {
	peer := t.end.Peer()
	if peer == t.settled || peer.Addr().Is6() != t.six {
		return nil
	}
	if err := t.host.kernel.setDestination(t.device, peer, t.udpPort()); err != nil {
		return err
	}
	if err := t.host.pins.move(t.pin()); err != nil {
		return err
	}
	if t.settled = peer; t.said != peer {
		t.said = peer
		t.log.Info("the other end is connected", "address", peer)
	}
	return nil
}

func (t *tunnel) pin() pin {
	return pin{udpPort: t.udpPort(), vni: t.order.GetVni(), peer: t.end.Peer()}
}

// counter returns the name of the counter of unauthenticated packets.
func (t *tunnel) counter() string {
	return pin{udpPort: t.udpPort(), vni: t.order.GetVni()}.name("strangers")
}

// resetPeer returns the pin of the end's current peer and makes the next tend set the peer in the kernel again.
func (t *tunnel) resetPeer() pin {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.settled = netip.AddrPort{}
	return t.pin()
}

func (t *tunnel) trouble() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.reason
}

// tend maintains the device, which may have gone, and the path of its packets.
func (t *tunnel) tend() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.refresh()
}

func (t *tunnel) refresh() {
	if t.over {
		return
	}
	err := t.ensureDevice()
	if err == nil {
		err = t.setPeer()
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

func (t *tunnel) ensureDevice() error {
	k := t.host.kernel
	underlay, w, err := k.wayTo(t.order.GetDevice(), t.end.Peer().Addr())
	if err != nil {
		return err
	}
	wanted := specOf(t.order, underlay)
	wanted.six = t.six
	mtu := max(w.innerMTU(t.six), smallestMTU)
	found, there, err := find(k.inner, wanted.name, 0)
	if err != nil {
		return err
	}
	if there && found.alias != k.alias(wanted) {
		if !k.ours(found) && !found.unfinished() {
			return fmt.Errorf("another network device has the name %s: remove it (ip link delete %s), "+
				"or give the tunnel's port another name", wanted.name, wanted.name)
		}
		if err := k.remove(found); err != nil {
			return err
		}
		there = false
	}
	if !there {
		if found, err = k.make(wanted, mtu); err != nil {
			return err
		}
	}
	t.showToBridge(found)
	found.underlay = underlay
	if found.mtu != mtu || !found.up {
		if err := k.setUp(found, mtu); err != nil {
			return err
		}
	}
	if err := t.openDevice(found); err != nil {
		return err
	}
	t.end.Ceiling(mtu)
	if w != t.way {
		t.way = w
		t.end.Changed(t.host.now())
		t.wakeUp()
	}
	return nil
}

func specOf(order *agentv1.Tunnel, underlay int) spec {
	return spec{
		name: order.GetPort(), vni: order.GetVni(), udpPort: uint16(order.GetUdpPort()), underlay: underlay, remote: remoteOf(order),
	}
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

// openDevice moves the socket to the tunnel's current device.
func (t *tunnel) openDevice(d device) error {
	if d.index == t.device.index && t.inner != nil {
		return nil
	}
	if t.inner != nil {
		t.inner.Close()
		t.inner = nil
	}
	t.device, t.settled = d, netip.AddrPort{}
	err := t.host.inside(func() (err error) {
		t.inner, err = openInner(d.index)
		return err
	})
	if err != nil {
		return err
	}
	t.receive(t.inner, t.handleInner)
	return nil
}
