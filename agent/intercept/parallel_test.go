// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/relay/onward"
)

const (
	osaka   = "10.8.8.8"
	opened  = 4           // maximum of connections to a relay that are opened in advance
	begins  = time.Second // from the start of the transfer to that of the measurement
	counted = time.Second
)

// The gateway reaches tokyo and osaka over separate paths of 20 Mbit/s. The path between the relays is faster.
func TestTimedTwoRelaysAddTheirThroughput(t *testing.T) {
	h := ordered(t, true, "tokyo")
	h.relay.Run("ip", "mptcp", "limits", "set", "subflows", "8")
	other := lab.One(t)
	h.link(h.bridge, "far", "10.3.0.1/24", other, "10.3.0.2/24")
	h.link(other, "back", "10.4.0.1/24", h.relay, "10.4.0.2/24")
	has(other, "lo", osaka+"/32")
	h.routes(h.bridge, osaka+" via 10.3.0.2")
	h.routes(other, "10.97.1.0/24 via 10.3.0.1", "10.9.9.9 via 10.4.0.2")
	for _, device := range []string{"wifi", "far"} {
		h.bridge.Run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "20mbit", "burst", "10k", "limit", "200k")
	}
	other.Do(func() error {
		forwarder, err := onward.Claim()
		if err != nil {
			return err
		}
		t.Cleanup(func() { other.Try(forwarder.Close) })
		return forwarder.Replace([]onward.PortForward{{Port: 5533, To: netip.MustParseAddrPort("10.9.9.9:4433")}})
	})
	rates := make(chan float64)
	h.serves("8000", func(conn *net.TCPConn) { rates <- received(conn) })
	uploaded := func(ways ...*agentv1.PortForward) float64 {
		order := h.order("tokyo", "osaka")
		order.Block = true
		order.Terminals[0].Locals = order.Terminals[0].Locals[:1]
		order.Relays[1].Address, order.Relays[1].Onward = osaka, ways
		h.takes(order)
		conn, err := h.opens(television4, server4, "8000")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for block := make([]byte, 1<<16); err == nil; _, err = conn.Write(block) {
			}
		}()
		defer conn.Close()
		return <-rates
	}
	one := uploaded()
	both := 0.0
	for tries := 0; both < 1.3*one && tries < opened; tries++ { // the first tries use connections from before the order
		both = uploaded(&agentv1.PortForward{Port: 5533, Address: "10.9.9.9", OtherPort: 4433})
	}
	t.Logf("by one way %.1f Mbit/s, by both %.1f: %.2f times as much", one/1e6, both/1e6, both/one)
	if both < 1.3*one { // nearly 2, on a machine that does not stall
		t.Errorf("by two ways come %.1f Mbit/s and by one %.1f, expected nearly twice as much", both/1e6, one/1e6)
	}
}

// received returns the throughput in bit/s after the start of the transfer.
func received(conn *net.TCPConn) float64 {
	buffer, from, total := make([]byte, 1<<16), time.Now().Add(begins), 0
	for conn.SetReadDeadline(from.Add(counted)); ; {
		n, err := conn.Read(buffer)
		if time.Now().After(from) {
			total += n
		}
		if err != nil {
			return float64(8*total) / counted.Seconds()
		}
	}
}
