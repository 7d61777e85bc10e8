package taking_test

import (
	"bufio"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEachTerminalsConnectionsRideAllUplinksByAddressesOfItsOwn(t *testing.T) {
	h := ordered(t, true, "tokyo")
	h.sees(television4, server4, relay4)
	h.sees(tablet4, server4, relay4)
	h.sees(television6, server6, relay6) // to a relay that is reached by IPv4
	h.eventually("both subflows of each", func() bool {
		seen := h.subflows()
		return slices.Contains(seen, "10.97.1.2 10.97.2.2") && slices.Contains(seen, "10.97.2.3 10.97.1.3")
	})
	taking := h.taking()
	if n := taking.GetTerminals()[0]; n.GetRelayed() != 2 || n.GetConnections() != 2 || n.GetBytesDown() == 0 || n.GetDirect() != 0 {
		t.Fatalf("%v, expected two of the television", taking)
	}
	if n := len(taking.GetSought()); n != 2 { // of each family
		t.Fatalf("%v, expected both prefixes to be sought", taking)
	}
}

func TestWhatIsNoTCPIsNotTaken(t *testing.T) {
	h := ordered(t, true, "tokyo")
	var server net.PacketConn
	h.server.Do(func() (err error) {
		server, err = net.ListenPacket("udp", server4+":53")
		return err
	})
	defer server.Close()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo([]byte(from.(*net.UDPAddr).IP.String()+"\n"), from)
		}
	}()
	var conn net.Conn
	h.terminals.Do(func() (err error) {
		conn, err = net.Dial("udp", server4+":53")
		return err
	})
	defer conn.Close()
	conn.Write([]byte("?"))
	if seen, err := bufio.NewReader(conn).ReadString('\n'); strings.TrimSpace(seen) != television4 {
		t.Fatalf("the server sees %q (%v), expected the terminal", seen, err)
	}
	h.terminals.Run("ping", "-c", "1", "-W", "5", server4)
}

func TestWhereTheAgentIsKilledTheHostAnswersByItself(t *testing.T) {
	for _, block := range []bool{false, true} {
		t.Run(map[bool]string{false: "direct", true: "block"}[block], func(t *testing.T) {
			h := ordered(t, block, "tokyo")
			session := h.sees(television4, server4, relay4)
			h.end(os.Kill)
			if err := session.goesOn(); err == nil {
				t.Fatal("a connection outlived the proxy")
			}
			for from, to := range map[string]string{television4: server4, tablet6: server6} {
				if block {
					h.refused(from, to)
				} else {
					h.sees(from, to, from)
				}
			}
			h.start()
			order := h.order("tokyo")
			order.Block = block
			h.takes(order)
			h.reached("tokyo", true)
			h.sees(tablet4, server4, relay4)
		})
	}
}

func TestAtItsEndEverythingIsAsBefore(t *testing.T) {
	h := newHouse(t)
	state := func() string {
		return h.gateway.Run("ip", "rule") + h.gateway.Run("ip", "-6", "rule") + h.gateway.Run("ip", "route", "show", "table", "all") +
			h.gateway.Run("ip", "-6", "route", "show", "table", "all") + h.gateway.Run("nft", "list", "ruleset") +
			h.gateway.Run("ip", "-o", "link", "show", "type", "veth")
	}
	before := state()
	h.stands("tokyo", 4433)
	for what, undo := range map[string]func(){
		"ends": func() { h.end(unix.SIGTERM) },
		"is ordered to take nothing": func() {
			order := h.order()
			order.Terminals = nil
			h.takes(order)
		},
	} {
		h.takes(h.order("tokyo"))
		h.reached("tokyo", false)
		undo()
		if after := state(); after != before {
			t.Fatalf("when the agent %s there is\n%s\nexpected, as before,\n%s", what, after, before)
		}
		if what == "ends" {
			h.start()
		}
	}
}
