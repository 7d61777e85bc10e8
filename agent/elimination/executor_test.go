// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/portxdp"
	"bicast/api/agentv1"
	"bicast/internal/lab"
)

// A site's host. The test sends any frames from the other ends of its uplinks.
type site struct {
	t         *testing.T
	host, far *lab.Host
	executor  *Executor
}

func newExecutor(host *lab.Host) *Executor {
	log := slog.New(slog.DiscardHandler)
	return NewExecutor(host.Try, portxdp.New(host.Try, log), log)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	s.far, s.host = lab.Two(t)
	s.executor = newExecutor(s.host)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.executor.Run(ctx) // then everything passes
	})
	return s
}

// ordered returns an order whose ports have the destination address of all frames.
func ordered(ports ...string) *agentv1.Eliminate {
	order := &agentv1.Eliminate{WindowFloorMs: 10, WindowCeilingMs: 10_000}
	for _, port := range ports {
		order.Paths = append(order.Paths, &agentv1.CopyPath{Name: "by " + port, Port: port, Mac: net.HardwareAddr(own.Bytes[:]).String()})
	}
	return order
}

func (s *site) order(order *agentv1.Eliminate) {
	s.t.Helper()
	if _, err := s.executor.Order(order); err != nil {
		s.t.Fatal(err)
	}
}

// send sends a frame. The program handles it before send returns or soon afterwards.
func (s *site) send(port string, frame []byte) {
	s.t.Helper()
	s.far.Do(func() error {
		device, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: device.Index})
	})
}

// counts waits until the program has counted this many packets.
func (s *site) counts(seen uint64) (wifi, lte *agentv1.PathCopies) {
	s.t.Helper()
	for deadline := time.Now().Add(deaf); ; time.Sleep(time.Millisecond) {
		paths := s.executor.Report().GetPaths()
		all := uint64(0)
		for _, path := range paths {
			all += path.GetFirst() + path.GetEliminated() + path.GetLate() + path.GetRogue()
		}
		if all == seen {
			return paths[0], paths[1]
		}
		if all > seen || time.Now().After(deadline) {
			s.t.Fatalf("%v, expected %d packets to be seen", paths, seen)
		}
	}
}

func (s *site) missing(sentences ...string) {
	s.t.Helper()
	missing := s.executor.Report().GetMissing()
	if len(missing) != len(sentences) {
		s.t.Fatalf("%v, expected %d ports without a program", missing, len(sentences))
	}
	for i, sentence := range sentences {
		if !strings.Contains(missing[i].GetReason(), sentence) {
			s.t.Fatalf("%v, expected a reason with %q", missing[i], sentence)
		}
	}
}

// quiet keeps a namespace from sending packets of its own, which would count.
func (s *site) quiet() {
	for _, host := range []*lab.Host{s.host, s.far} {
		for _, device := range []string{"wifi", "lte"} {
			host.Sysctl("ipv6/conf/"+device+"/disable_ipv6", "1")
		}
	}
}

func TestTheFirstOfTwoCopiesPassesAtThePorts(t *testing.T) {
	s := newSite(t)
	s.quiet()
	s.order(ordered("wifi", "lte"))
	s.send("wifi", numbered(1).frame())
	s.counts(1)
	s.send("lte", numbered(1).frame())
	s.counts(2)
	s.send("lte", numbered(2).frame())
	byWifi, byLTE := s.counts(3)
	if byWifi.GetName() != "by wifi" || byWifi.GetFirst() != 1 || byLTE.GetEliminated() != 1 || byLTE.GetFirst() != 1 {
		t.Fatalf("%v and %v", byWifi, byLTE)
	}
	if len(byLTE.GetSkew()) == 0 || !byLTE.GetNative() {
		t.Fatalf("%v, expected its skew, and native XDP on veth", byLTE)
	}
}

func TestPortsOfTerminalsGetIdentifications(t *testing.T) {
	s := newSite(t)
	s.quiet()
	order := ordered("wifi", "lte")
	order.NumberedPorts = []string{"inside"}
	s.host.Run("ip", "link", "add", "inside", "type", "veth", "peer", "name", "phone")
	s.order(order)
	if shown := s.host.Run("ip", "-d", "link", "show", "inside"); !strings.Contains(shown, "xdp") {
		t.Fatalf("%s, expected a program", shown)
	}
}

func TestAReturningPortGetsItsProgramAgain(t *testing.T) {
	s := newSite(t)
	s.order(ordered("wifi", "lte"))
	s.host.Run("ip", "link", "del", "lte")
	s.executor.tend()
	s.missing("there is no network device lte")
	s.far.Run("ip", "link", "add", "lte", "type", "veth", "peer", "name", "lte", "netns", s.host.Path())
	for _, host := range []*lab.Host{s.host, s.far} {
		host.Run("ip", "link", "set", "lte", "up")
	}
	s.quiet()
	s.order(ordered("lte", "wifi")) // a different order resets the counters
	s.missing()
	s.send("wifi", numbered(1).frame())
	s.counts(1)
	s.send("lte", numbered(1).frame())
	if byLTE, _ := s.counts(2); byLTE.GetEliminated() != 1 {
		t.Fatalf("%v, expected its copy to be eliminated", byLTE)
	}
}

func TestAPortHasOneEliminator(t *testing.T) {
	s := newSite(t)
	s.order(ordered("wifi", "lte"))
	other := newExecutor(s.host)
	if _, err := other.Order(ordered("lte", "wifi")); err == nil || !strings.Contains(err.Error(), "has an XDP program already") {
		t.Fatalf("%v, expected the second to be refused", err)
	}
	if err := other.unload(); err != nil {
		t.Fatal(err)
	}
	s.missing()
}

func TestAllPacketsPassWithoutPaths(t *testing.T) {
	s := newSite(t)
	s.order(ordered("wifi", "lte"))
	s.order(&agentv1.Eliminate{})
	if s.executor.Report() != nil {
		t.Fatalf("%v, expected no order", s.executor.Report())
	}
	if shown := s.host.Run("ip", "-d", "link"); strings.Contains(shown, "xdp") {
		t.Fatalf("%s, expected no program", shown)
	}
}

func TestAnInvalidOrderKeepsThePreviousOne(t *testing.T) {
	s := newSite(t)
	s.order(ordered("wifi", "lte"))
	twice, nameless, long := ordered("wifi", "lte", "lte"), ordered("wifi", ""), ordered("wifi", "lte")
	long.WindowCeilingMs = 60000
	homeless := ordered("wifi", "lte")
	homeless.Paths[1].Mac = "02:00:00:00:00:00:00:01"
	numberedToo := ordered("wifi", "lte")
	numberedToo.NumberedPorts = []string{"lte"}
	for why, order := range map[string]*agentv1.Eliminate{
		"1 path": ordered("wifi"), "listed twice": twice, "empty name": nameless, "window": long, "twice": numberedToo, "MAC address": homeless,
	} {
		if _, err := s.executor.Order(order); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, expected a refusal with %q", err, why)
		}
	}
	if len(s.executor.Report().GetPaths()) != 2 {
		t.Fatalf("%v, expected the first order to stay in force", s.executor.Report())
	}
}

func TestEverythingPassesAfterTheLease(t *testing.T) {
	s := newSite(t)
	s.quiet()
	s.order(ordered("wifi", "lte"))
	if err := s.executor.copies.Renew(time.Second, 0); err != nil {
		t.Fatal(err)
	}
	s.send("wifi", numbered(1).frame())
	s.send("lte", numbered(1).frame())
	s.order(ordered("wifi", "lte")) // also tends it
	s.send("wifi", numbered(2).frame())
	s.counts(1)
}
