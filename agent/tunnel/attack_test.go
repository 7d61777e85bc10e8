// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
)

const (
	initiation = 1 // types of WireGuard's messages
	data       = 4
)

// stranger sends UDP payloads to the far end from the NAT's host, and returns how many answers came.
func (w *world) stranger(payloads ...[]byte) (answers int) {
	w.t.Helper()
	w.nat.Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort("203.0.113.9", fmt.Sprint(udpPort)))
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, each := range payloads {
			if _, err := conn.Write(each); err != nil {
				return err
			}
		}
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			if _, err := conn.Read(make([]byte, longest)); errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			} else if err != nil {
				return err
			}
			answers++
		}
	})
	return answers
}

// capture returns the payloads of this many messages of a type that pass the NAT to the far end.
func (w *world) capture(kind byte, count int) (found [][]byte) {
	w.t.Helper()
	w.nat.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, unix.ETH_P_ALL<<8) // in network byte order
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		buffer := make([]byte, longest)
		for len(found) < count {
			n, from, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil {
				return err
			}
			const headers = fourBytes + udpBytes
			outgoing := from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING
			if outgoing && n > headers && buffer[0]>>4 == 4 && buffer[9] == unix.IPPROTO_UDP && buffer[headers] == kind {
				found = append(found, bytes.Clone(buffer[headers:n]))
			}
		}
		return nil
	})
	return found
}

func TestAReplayMovesNothingAndIsNotDelivered(t *testing.T) {
	w := newWorld(t, false).begin()
	w.traffic()
	captured := w.capture(data, 20)
	peer := w.away.says().GetPeer()
	if answers := w.stranger(captured...); answers != 0 {
		t.Fatalf("%d answers, expected none", answers)
	}
	if says := w.away.says(); says.GetPeer() != peer || says.GetMoves() != 0 || !w.passes(100) {
		t.Fatalf("%v, expected nothing to have moved from %s", says, peer)
	}
}

// taken is a port of the NAT's host that gets what the near end sends to the far end.
const taken = 9999

func (w *world) take() (near *net.UDPConn) {
	w.t.Helper()
	w.nft(w.nat, fmt.Sprintf(`table ip taken {
chain pre {
type nat hook prerouting priority dstnat;
iifname "lan" udp dport %d redirect to :%d
}
}`, udpPort, taken))
	w.nat.Do(func() (err error) {
		near, err = net.ListenUDP("udp4", &net.UDPAddr{Port: taken})
		return err
	})
	return near
}

// dial opens a socket of the NAT's host, with a port of its own.
func (w *world) dial(to string) (conn *net.UDPConn) {
	w.t.Helper()
	w.nat.Do(func() (err error) {
		conn, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("%s:%d", to, udpPort))))
		return err
	})
	return conn
}

// pass gives what one function reads to another one, until the socket is closed.
func pass(read func([]byte) (int, error), write func([]byte)) {
	for {
		buffer := make([]byte, longest)
		n, err := read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			write(buffer[:n])
		}
	}
}

// An attacker passes packets on from a port of its own in both directions, so that both ends send there.
func TestARelayingAttackerKeepsNoTunnel(t *testing.T) {
	w := newWorld(t, false).begin()
	w.traffic()
	before := w.away.says().GetPeer()
	near, far, back := w.take(), w.dial("203.0.113.9"), w.dial("10.0.0.2")
	w.forget()
	go pass(near.Read, func(b []byte) { far.Write(b) })
	go pass(back.Read, func(b []byte) { far.Write(b) })
	go pass(far.Read, func(b []byte) { back.Write(b) })
	w.await("the attacker carries the tunnel", func() bool { return w.away.says().GetPeer() != before })
	attacker := w.away.says().GetPeer()
	w.await("packets go through", func() bool { return w.ping(100) })
	for _, each := range []*net.UDPConn{near, far, back} {
		each.Close()
	}
	w.nft(w.nat, "delete table ip taken")
	w.forget()
	w.await("the far end sends past the attacker", func() bool { return w.away.says().GetPeer() != attacker })
	w.await("packets go through again", func() bool { return w.ping(100) })
}

func TestATunnelComesUpOverALongRoundTrip(t *testing.T) {
	w := newWorld(t, false)
	const delay = 600 * time.Millisecond // each way
	near, far := w.take(), w.dial("203.0.113.9")
	defer near.Close()
	defer far.Close()
	var source atomic.Pointer[net.UDPAddr]
	go pass(func(b []byte) (int, error) {
		n, from, err := near.ReadFromUDP(b)
		source.Store(from)
		return n, err
	}, func(b []byte) { time.AfterFunc(delay, func() { far.Write(b) }) })
	go pass(far.Read, func(b []byte) { time.AfterFunc(delay, func() { near.WriteToUDP(b, source.Load()) }) })
	w.begin()
}

func TestATunnelLeavesByNoOtherDevice(t *testing.T) {
	w := newWorld(t, false)
	w.addUplink()
	w.begin()
	w.gateway.Run("ip", "link", "set", "wan", "down")
	w.await("the tunnel is down", func() bool { return !w.alive() })
	silent := w.away.says().GetSincePacketMs()
	for w.near.says().GetSincePacketMs() < 2*silent {
		if w.alive() {
			t.Fatal("the tunnel goes on over another device")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestATunnelComesUpWhereIPv6IsOff(t *testing.T) {
	w := newWorld(t, false)
	w.far.Sysctl("ipv6/conf/all/disable_ipv6", "1")
	w.far.Sysctl("ipv6/conf/default/disable_ipv6", "1")
	w.begin()
}

func TestNothingOfAPacketIsReadableOnTheWay(t *testing.T) {
	for _, clear := range []bool{false, true} {
		w := newWorld(t, false)
		near, away := w.orders()
		near.Tunnels[0].Clear, away.Tunnels[0].Clear = clear, clear
		w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.far, away)
		w.await("the ends hear each other", w.alive)
		w.address()
		w.await("packets go through", func() bool { return w.ping(100) })
		if clear {
			continue // the control: without encryption it works alike
		}
		w.traffic()
		inner := []byte{10, 99, 0, 1, 10, 99, 0, 2} // the addresses of the traffic
		for _, each := range w.capture(data, 20) {
			if bytes.Contains(each, inner) {
				t.Fatalf("%x shows the packet in it", each)
			}
		}
	}
}

func TestAnEndWithoutEncryptionIsNotHeardByOneWithIt(t *testing.T) {
	w := newWorld(t, false)
	near, away := w.orders()
	near.Tunnels[0].Clear = true
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.far, away)
	w.address()
	for range 3 {
		if w.ping(100) || w.alive() {
			t.Fatal("packets in clear go through")
		}
	}
}

func TestStrangersGetNoAnswer(t *testing.T) {
	w := newWorld(t, false).begin()
	forged := make([]byte, 148) // as long as an initiation
	forged[0] = initiation
	payloads := [][]byte{{}, {initiation}, forged, append([]byte{data}, make([]byte, 100)...), make([]byte, 1400)}
	if answers := w.stranger(payloads...); answers != 0 {
		t.Fatalf("%d answers, expected none", answers)
	}
	if says := w.away.says(); says.GetMoves() != 0 || !w.passes(100) {
		t.Fatalf("%v, expected nothing to have changed", says)
	}
}

func TestAFloodOfHandshakesStopsNoPacket(t *testing.T) {
	w := newWorld(t, false).begin()
	forged := make([]byte, 148)
	forged[0] = initiation
	flood := make([][]byte, 20_000)
	for i := range flood {
		flood[i] = bytes.Clone(forged)
		flood[i][4], flood[i][5] = byte(i), byte(i>>8)
	}
	ended := make(chan int)
	go func() { ended <- w.stranger(flood...) }()
	for {
		select {
		case answers := <-ended:
			if answers != 0 {
				t.Fatalf("%d answers, expected none", answers)
			}
			return
		default:
			if !w.passes(100) {
				t.Fatal("nothing goes through")
			}
		}
	}
}

// WireGuard negotiates new keys after 120 s.
func TestTimedKeysChangeEveryTwoMinutesWithoutLoss(t *testing.T) {
	w := newWorld(t, false).begin()
	session := func() []byte { return w.capture(data, 1)[0][4:8] } // the receiver's number of the keys
	pings := w.losing(130 * time.Second)
	before := session()
	if lost := <-pings; lost != 0 {
		t.Errorf("%g %% of 6,500 pings are lost", lost)
	}
	w.losing(5 * time.Second)
	if bytes.Equal(session(), before) {
		t.Error("the keys are the same after 130 s")
	}
}

// A host that joined again has other keys, and the one that was revoked has the old ones.
func TestTheKeysOfARevokedHostOpenNothing(t *testing.T) {
	w := newWorld(t, false).begin()
	w.await("packets go through", func() bool { return w.ping(100) })
	after := proto.Clone(w.away.order).(*agentv1.Tunnels)
	after.Tunnels[0].PeerKey = public(keys(3), testVNI)
	if _, err := w.away.executor.Order(after); err != nil {
		t.Fatal(err)
	}
	w.await("the revoked end is silent", func() bool { return w.near.says().GetReason() != "" })
	if w.ping(100) {
		t.Fatal("packets of a revoked host go through")
	}
}

func TestAUserOfTheHostCannotHoldPortsInTheTunnel(t *testing.T) {
	w := newWorld(t, false)
	for _, port := range []int{innerPort, messagePort} {
		if port >= 1024 {
			t.Fatalf("any user can hold UDP port %d", port)
		}
	}
	taken, err := (*net.UDPConn)(nil), error(nil)
	w.far.Do(func() error {
		taken, err = net.ListenUDP("udp", &net.UDPAddr{Port: udpPort})
		return err
	})
	_, away := w.orders()
	executor := NewExecutor(w.far.Try, w.far.Try, farKeys, &fits{}, discard())
	if _, err := executor.Order(away); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("%v, expected it to say that the port is in use", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	near, _ := w.orders()
	w.near = w.site(w.gateway, w.ports, near)
	w.await("the tunnel is up after the port was free", func() bool {
		executor.tick()
		return w.near.says().GetReason() == ""
	})
	if _, err := executor.Order(&agentv1.Tunnels{}); err != nil {
		t.Fatal(err)
	}
}
