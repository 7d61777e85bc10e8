// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"bicast/api/agentv1"
)

// tunnel is one running tunnel of an order: its end, its device and its sockets.
type tunnel struct {
	order *agentv1.Tunnel
	host  *environment
	log   *slog.Logger
	wake  chan struct{}
	parts sync.WaitGroup
	ctx   context.Context // of the goroutines
	stop  context.CancelFunc

	mutex   sync.Mutex
	end     *End
	six     bool // the outer packets are IPv6
	turned  time.Duration
	device  device // index 0: there is none
	showing int    // index of the device that a bridge is asked to read; 0: none
	way     way
	settled netip.AddrPort // the peer's address in the kernel
	said    netip.AddrPort // the peer that was logged
	reason  error          // why there is no device, or the kernel does not know the peer
	over    bool
	inner   *os.File
	outer   []*os.File
}

// environment is shared by the tunnels of an executor.
type environment struct {
	kernel      *kernel
	pins        pins
	outside     func(func() error) error
	inside      func(func() error) error
	now         func() time.Duration
	searchEvery time.Duration
	route       hostRoute
}

// begin starts a tunnel. It takes over the device of an earlier agent if that fits the order.
func begin(order *agentv1.Tunnel, host *environment, log *slog.Logger) (*tunnel, error) {
	t := &tunnel{order: order, host: host, wake: make(chan struct{}, 1), log: log.With("tunnel", order.GetName())}
	t.ctx, t.stop = context.WithCancel(context.Background())
	settings := Settings{
		VNI: order.GetVni(), Key: order.GetKey(), Starts: order.GetRemote() != "", SearchEvery: host.searchEvery, Random: rand.Reader,
		Wall: time.Now,
	}
	if settings.Starts {
		settings.Peer = netip.AddrPortFrom(remoteOf(order), t.udpPort())
		t.six = settings.Peer.Addr().Is6()
	} else if found, there, err := find(host.kernel.inner, order.GetPort(), 0); err != nil {
		return nil, err
	} else if there && host.kernel.ours(found) {
		t.six = found.six()
		peers, err := host.kernel.peers(found, t.udpPort())
		if err != nil {
			return nil, err
		}
		if len(peers) == 1 {
			settings.Peer = peers[0]
		}
	}
	t.end = NewEnd(settings)
	if !settings.Starts {
		if err := t.listen(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tunnel) udpPort() uint16 { return uint16(t.order.GetUdpPort()) }

// listen opens the sockets, of IPv4 and IPv6, at which the other end may first appear.
func (t *tunnel) listen() error {
	for _, six := range []bool{false, true} {
		err := t.host.outside(func() error {
			file, err := openOuter(six, t.udpPort(), t.order.GetVni())
			if err == nil {
				t.outer = append(t.outer, file)
			}
			return err
		})
		if err != nil {
			return errors.Join(err, t.closeSockets())
		}
	}
	return nil
}

// run starts the tunnel's goroutines, which finish ends.
func (t *tunnel) run() {
	for i, file := range t.outer {
		t.receive(file, func(b []byte) {
			if from, carried, whole := unwrap(i == 1, b); whole {
				t.handleOuter(from, carried)
			}
		})
	}
	t.parts.Add(1)
	go func() {
		defer t.parts.Done()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-t.wake:
			case <-t.ctx.Done():
				return
			}
			t.mutex.Lock()
			t.act(t.end.Tick(t.host.now()))
			wait := t.end.Next()
			t.mutex.Unlock()
			timer.Reset(wait)
		}
	}()
}

// finish ends the tunnel but leaves the device to the next agent.
func (t *tunnel) finish() error {
	t.stop()
	t.mutex.Lock()
	t.over = true
	err := t.closeSockets()
	t.mutex.Unlock()
	t.parts.Wait()
	return err
}

func (t *tunnel) closeSockets() error {
	var failures []error
	for _, file := range append(t.outer, t.inner) {
		if file != nil {
			failures = append(failures, file.Close())
		}
	}
	t.outer, t.inner = nil, nil
	return errors.Join(failures...)
}

func (t *tunnel) receive(file *os.File, take func([]byte)) {
	t.parts.Add(1)
	go func() {
		defer t.parts.Done()
		buffer := make([]byte, packetBytes)
		for {
			n, err := file.Read(buffer)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err == nil { // a device that went down returns one error
				take(buffer[:n])
			}
		}
	}()
}

// handleOuter handles a packet from any address. The device has a socket of either IPv4 or IPv6. If the other end is silent and
// an authentic question arrives by the other version, the device is made for that version.
func (t *tunnel) handleOuter(from netip.AddrPort, b []byte) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.host.now()
	if six := from.Addr().Is6(); six != t.six && !t.end.Alive(now) && (t.turned == 0 || now-t.turned > deadAfter) {
		if m, ours := open(t.order.GetVni(), t.order.GetKey(), b); ours && m.kind == question {
			t.six, t.turned = six, now
			t.refresh()
		}
	}
	if from.Addr().Is6() == t.six {
		t.act(t.end.Outer(now, from, b))
	}
}

func (t *tunnel) handleInner(b []byte) {
	if len(b) < ethernetBytes {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.act(t.end.Inner(t.host.now(), b[ethernetBytes:]))
	t.wakeUp() // a received packet may make more due than the replies
}

// wakeUp makes the tunnel ask its end again what is due.
func (t *tunnel) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default: // a wakeup is already pending
	}
}

// act sends what the end returned. A failed send counts as packet loss.
func (t *tunnel) act(sends []Send) {
	if t.inner == nil {
		return
	}
	if err := t.setPeer(); err != nil {
		t.setFailure(err)
	}
	for _, each := range sends {
		to := toTheBridge
		if each.To.IsValid() {
			if t.host.kernel.setProbeDestination(t.device, each.To) != nil {
				continue
			}
			to = probeMAC
		}
		t.inner.Write(frame(to, each.Bytes))
	}
}

// message returns the report.
func (t *tunnel) message(unauthenticated uint64) *agentv1.TunnelEnd {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.host.now()
	end := &agentv1.TunnelEnd{
		Name: t.order.GetName(), RttUs: uint32(t.end.RTT().Microseconds()), MtuBytes: uint32(t.end.MTU()),
		Moves: uint32(t.end.Moves()), Unauthenticated: unauthenticated,
	}
	silence, ever := t.end.Silence(now)
	if ever {
		ms := uint32(silence.Milliseconds())
		end.SincePacketMs, end.Peer = &ms, t.end.Peer().String()
	}
	switch {
	case t.reason != nil:
		end.Reason = t.reason.Error()
	case t.end.Alive(now):
	case t.end.Peer().IsValid() && t.way.device == 0:
		end.Reason = fmt.Sprintf("this host has no route to %v%s", t.end.Peer().Addr(), byDevice(t.order.GetDevice()))
	case ever:
		end.Reason = fmt.Sprintf("the other end has sent nothing for %d s", int(silence.Seconds()))
	case t.order.GetRemote() != "":
		end.Reason = fmt.Sprintf("%v does not answer: start the agent of the other site, and let UDP port %d pass to it",
			t.end.Peer(), t.udpPort())
	default:
		end.Reason = fmt.Sprintf("the other end has not connected yet: start its agent, and let UDP port %d pass to this host",
			t.udpPort())
	}
	return end
}

func byDevice(name string) string {
	if name == "" {
		return ""
	}
	return " over " + name + ": check that it is up and has an address and a route"
}

// pathMTU returns the longest packet that passes now; 0: unknown, or the tunnel is down.
func (t *tunnel) pathMTU() int {
	if !t.alive() {
		return 0
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.end.MTU()
}

// liveDevice returns the index of the device by which the tunnel's packets leave; 0: the tunnel is down.
func (t *tunnel) liveDevice() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.reason != nil || !t.end.Alive(t.host.now()) {
		return 0
	}
	return t.way.device
}

// alive reports whether the tunnel is up: it has a device, and the other end is not silent.
func (t *tunnel) alive() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.reason == nil && t.end.Alive(t.host.now())
}

func remoteOf(order *agentv1.Tunnel) netip.Addr {
	address, err := netip.ParseAddr(order.GetRemote())
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}
