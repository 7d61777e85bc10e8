// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"bicast/agent/tunnel/wireguard"
	"bicast/api/agentv1"
)

// tunnel is one running tunnel of an order: its end, its devices and the socket of its messages.
type tunnel struct {
	order *agentv1.Tunnel
	host  *environment
	log   *slog.Logger
	wake  chan struct{}
	parts sync.WaitGroup
	ctx   context.Context // of the goroutines
	stop  context.CancelFunc
	begun time.Duration

	mutex    sync.Mutex
	end      *End
	outer    outer          // the WireGuard device
	device   device         // the VXLAN device in it; index 0: there is none
	socket   *net.UDPConn   // for messages; nil: none
	showing  int            // index of the device that a bridge is asked to read; 0: none
	way      way            // of the encrypted packets
	peer     netip.AddrPort // from which they come
	forgot   time.Duration  // when the session was last forgotten
	patience time.Duration  // until it is forgotten again if there is none
	reason   error          // why there is no device
	over     bool
}

// environment is shared by the tunnels of an executor.
type environment struct {
	kernel      *kernel
	outside     func(func() error) error
	inside      func(func() error) error
	now         func() time.Duration
	private     PrivateKey
	searchEvery time.Duration
	route       hostRoute
}

// PrivateKey returns this host's private key for a tunnel of its site, by number.
type PrivateKey func(number int) (wireguard.Key, error)

// begin makes a tunnel without devices.
func begin(order *agentv1.Tunnel, host *environment, log *slog.Logger) *tunnel {
	t := &tunnel{order: order, host: host, wake: make(chan struct{}, 1), log: log.With("tunnel", order.GetName())}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.end = NewEnd(t.starts(), host.searchEvery)
	t.begun = host.now()
	t.peer, t.forgot, t.patience = t.remote(), t.begun, beginAfter
	return t
}

func (t *tunnel) starts() bool { return t.order.GetRemote() != "" }

// remote returns the other end's address; not valid: the order does not name it.
func (t *tunnel) remote() netip.AddrPort {
	if !t.starts() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(remoteOf(t.order), uint16(t.order.GetUdpPort()))
}

// run starts the tunnel's goroutine, which finish ends.
func (t *tunnel) run() {
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
			t.send(t.end.Tick(t.host.now()))
			wait := t.end.Next()
			t.mutex.Unlock()
			timer.Reset(wait)
		}
	}()
}

// finish ends the tunnel but leaves its devices to the next agent.
func (t *tunnel) finish() error {
	t.stop()
	t.mutex.Lock()
	t.over = true
	err := errors.Join(t.closeSocket(), t.outer.close())
	t.mutex.Unlock()
	t.parts.Wait()
	return err
}

func (t *tunnel) closeSocket() error {
	if t.socket == nil {
		return nil
	}
	err := t.socket.Close()
	t.socket = nil
	return err
}

func (t *tunnel) receive(socket *net.UDPConn) {
	t.parts.Add(1)
	go func() {
		defer t.parts.Done()
		buffer := make([]byte, longest)
		for {
			n, err := socket.Read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // an error of an earlier send
			}
			t.mutex.Lock()
			t.send(t.end.Receive(t.host.now(), buffer[:n]))
			t.mutex.Unlock()
			t.wakeUp() // a received message may make more due than the replies
		}
	}()
}

// wakeUp makes the tunnel ask its end again what is due.
func (t *tunnel) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default: // a wakeup is already pending
	}
}

// send sends messages. A failed send counts as packet loss.
func (t *tunnel) send(messages []message) {
	if t.socket == nil {
		return
	}
	for _, each := range messages {
		t.socket.Write(each.encode())
	}
}

// message returns the report.
func (t *tunnel) message() *agentv1.TunnelEnd {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.host.now()
	end := &agentv1.TunnelEnd{
		Name: t.order.GetName(), RttUs: uint32(t.end.RTT().Microseconds()), MtuBytes: uint32(t.end.MTU()),
		Moves: uint32(t.end.Moves()),
	}
	silence, ever := t.end.Silence(now)
	if ever {
		ms := uint32(silence.Milliseconds())
		end.SincePacketMs = &ms
	}
	if ever && t.peer.IsValid() {
		end.Peer = t.peer.String()
	}
	switch {
	case t.reason != nil:
		end.Reason = t.reason.Error()
	case t.end.Alive(now):
	case len(t.order.GetPeerKey()) == 0 && !t.order.GetClear():
		end.Reason = "the controller does not know the other end's key yet: start the agent of the other site"
	case t.peer.IsValid() && t.way.device == 0:
		end.Reason = fmt.Sprintf("this host has no route to %v%s", t.peer.Addr(), byDevice(t.order.GetDevice()))
	case ever:
		end.Reason = fmt.Sprintf("the other end has sent nothing for %d s", int(silence.Seconds()))
	case t.starts():
		end.Reason = fmt.Sprintf("%v does not answer: start the agent of the other site, and let UDP port %d pass to it, and "+
			"everything that comes in by %s on both hosts", t.peer, t.order.GetUdpPort(), outerName(t.order.GetVni()))
	default:
		end.Reason = fmt.Sprintf("the other end has not connected yet: start its agent, and let UDP port %d pass to this host, "+
			"and everything that comes in by %s", t.order.GetUdpPort(), outerName(t.order.GetVni()))
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
