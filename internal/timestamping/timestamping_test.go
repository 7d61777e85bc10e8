// SPDX-License-Identifier: Apache-2.0

package timestamping

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

const patience = time.Minute

type pair struct {
	t           *testing.T
	client      *lab.Host
	near, far   *Socket
	buffer      []byte
	left, above map[uint32]Event
}

func newPair(t *testing.T, from, to string) *pair {
	client, server := lab.Two(t)
	p := &pair{t: t, client: client, buffer: make([]byte, 1<<16), left: map[uint32]Event{}, above: map[uint32]Event{}}
	server.Do(func() (err error) {
		p.far, err = Listen(netip.MustParseAddrPort(to), "")
		return err
	})
	t.Cleanup(p.far.Close)
	client.Do(func() (err error) {
		p.near, err = Dial(netip.MustParseAddrPort(from), p.far.Local(), "wifi")
		return err
	})
	t.Cleanup(p.near.Close)
	return p
}

func (p *pair) next(socket *Socket) Event {
	p.t.Helper()
	event, err := socket.Next(p.buffer, time.Now().Add(patience))
	if err != nil {
		p.t.Fatal(err)
	}
	return event
}

// stamped reads the two stamps of each of these packets.
func (p *pair) stamped(packets int) {
	p.t.Helper()
	for range 2 * packets {
		switch event := p.next(p.near); event.Moment {
		case Left:
			p.left[event.ID] = event
		case Queued:
			p.above[event.ID] = event
		default:
			p.t.Fatalf("%+v, expected a stamp of what was sent", event)
		}
	}
}

func TestPacketHasStampsAtBothEnds(t *testing.T) {
	for _, ends := range [][2]string{{"10.1.0.1:0", "10.1.0.2:0"}, {"[fd01::1]:0", "[fd01::2]:0"}} {
		p := newPair(t, ends[0], ends[1])
		deadline := time.Now().Add(patience)
		stamped := false // stamp of arrival: the kernel enables it asynchronously
		for n := 0; n < 100 || !stamped; n++ {
			before, length := time.Now().UnixNano(), 16+n%100
			id, err := p.near.Write(make([]byte, length))
			if err != nil {
				t.Fatal(err)
			}
			p.stamped(1)
			arrived := p.next(p.far)
			queued, left := p.above[id], p.left[id]
			if arrived.Length != length || arrived.From != p.near.Local() || arrived.TTL != 64 || int(id) != n {
				t.Fatalf("packet %d arrived as %+v", n, arrived)
			}
			if before > queued.At || queued.At > left.At || arrived.At != 0 && left.At > arrived.At || arrived.At > time.Now().UnixNano() {
				t.Fatalf("written at %d, queued at %d, left at %d, arrived at %d", before, queued.At, left.At, arrived.At)
			}
			stamped = stamped || arrived.At != 0
			if !stamped && time.Now().After(deadline) {
				t.Fatalf("the kernel does not stamp arrivals after %v", patience)
			}
		}
		if p.near.Hardware() {
			t.Fatal("a veth has no clock")
		}
	}
}

func TestFailedSendDoesNotShiftIDs(t *testing.T) {
	p := newPair(t, "10.1.0.1:0", "10.1.0.2:0")
	p.client.Run("nft", "add table inet t; add chain inet t out { type filter hook output priority 0; }; add rule inet t out meta length 128 drop")
	for range 20 {
		lengths := []int{50, 60, 70}
		var ids []uint32
		for _, length := range lengths {
			if _, err := p.near.Write(make([]byte, 2000)); !errors.Is(err, unix.EMSGSIZE) {
				t.Fatalf("%v, expected that it is too long", err)
			}
			if _, err := p.near.Write(make([]byte, 100)); !errors.Is(err, unix.EPERM) {
				t.Fatalf("%v, expected that it is not let out", err)
			}
			id, err := p.near.Write(make([]byte, length))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			p.stamped(1)
		}
		for n, length := range lengths {
			arrived := p.next(p.far)
			left, known := p.left[ids[n]]
			if !known || arrived.Length != length || arrived.At != 0 && left.At > arrived.At {
				t.Fatalf("%d bytes arrived as %+v, and left as %+v", length, arrived, left)
			}
		}
	}
}

func TestPacketTrainHasAllStamps(t *testing.T) {
	p := newPair(t, "10.1.0.1:0", "10.1.0.2:0")
	const train = 200
	for range train {
		if _, err := p.near.Write(make([]byte, 1440)); err != nil {
			t.Fatal(err)
		}
	}
	p.stamped(train)
	if len(p.left) != train || len(p.above) != train {
		t.Fatalf("%d left and %d were queued, expected %d of each", len(p.left), len(p.above), train)
	}
	for range train {
		p.next(p.far)
	}
}

func TestAnswerUsesTheListeningAddress(t *testing.T) {
	p := newPair(t, "10.1.0.1:0", "10.9.9.9:0")
	p.near.Write([]byte("question"))
	p.stamped(1)
	question := p.next(p.far)
	if _, err := p.far.Answer([]byte("answer"), question); err != nil {
		t.Fatal(err)
	}
	if answer := p.next(p.near); answer.From != p.far.Local() || string(p.buffer[:answer.Length]) != "answer" {
		t.Fatalf("%+v, expected the answer of %v", answer, p.far.Local())
	}
}

func TestAnswerUsesTheReceivingAddressOfAWildcard(t *testing.T) {
	for _, hasSix := range []bool{true, false} {
		client, server := lab.Two(t)
		addresses := []string{"10.1.0.2", "10.2.0.2", lab.Service}
		if hasSix {
			addresses = append(addresses, "fd01::2", lab.Service6)
		} else {
			server.Sysctl("ipv6/conf/all/disable_ipv6", "1")
		}
		var far *Socket
		server.Do(func() (err error) {
			far, err = Listen(netip.AddrPortFrom(netip.Addr{}, 862), "")
			return err
		})
		(&pair{t: t, client: client, far: far, buffer: make([]byte, 1<<16)}).answersFrom(addresses)
		far.Close()
	}
}

func (p *pair) answersFrom(addresses []string) {
	t, client, far := p.t, p.client, p.far
	t.Helper()
	for _, asked := range addresses {
		to := netip.AddrPortFrom(netip.MustParseAddr(asked), far.Local().Port())
		client.Do(func() (err error) {
			p.near, err = Dial(netip.AddrPort{}, to, "wifi") // receives from this device only
			return err
		})
		question := p.ask()
		id, err := far.Answer([]byte("answer"), question)
		if err != nil {
			t.Fatal(err)
		}
		for stamps := 0; stamps < 2; {
			stamp := p.next(far)
			if stamp.Moment == Arrived {
				continue
			}
			if stamp.ID != id || stamp.At < question.At {
				t.Fatalf("%s: %+v, expected a stamp of %d", asked, stamp, id)
			}
			stamps++
		}
		answer := p.next(p.near)
		for answer.Moment != Arrived {
			answer = p.next(p.near)
		}
		if answer.From != to || string(p.buffer[:answer.Length]) != "answer" {
			t.Fatalf("%+v, expected the answer of %v", answer, to)
		}
		if _, err := far.Answer(make([]byte, 2000), question); !errors.Is(err, unix.EMSGSIZE) {
			t.Fatalf("%v, expected that it is not fragmented", err)
		}
		p.near.Close()
	}
}

// ask repeats the packet until it arrives: a device that has just come up may lose the first.
func (p *pair) ask() Event {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err := p.near.Write([]byte("question")); err != nil {
			p.t.Fatal(err)
		}
		event, err := p.far.Next(p.buffer, time.Now().Add(100*time.Millisecond))
		if err == nil && event.Moment == Arrived && event.From == p.near.Local() && event.TTL == 64 {
			return event
		}
	}
	p.t.Fatalf("no request from %v arrived", p.near.Local())
	return Event{}
}

func TestCloseAndDeadlineEndNext(t *testing.T) {
	p := newPair(t, "10.1.0.1:0", "10.1.0.2:0")
	if _, err := p.near.Next(p.buffer, time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, expected that it was awaited no longer", err)
	}
	ended := make(chan error)
	go func() {
		_, err := p.near.Next(make([]byte, 100), time.Time{})
		ended <- err
	}()
	p.near.Close()
	p.near.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("%v, expected that it was closed", err)
	}
	if _, err := p.near.Write([]byte("late")); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("%v, expected that it is closed", err)
	}
	p.far.Close()
}

func TestNextReturnsConnectionRefused(t *testing.T) {
	p := newPair(t, "10.1.0.1:0", "10.1.0.2:0")
	p.far.Close()
	p.near.Write([]byte("anybody?"))
	for {
		event, err := p.near.Next(p.buffer, time.Now().Add(patience))
		if errors.Is(err, unix.ECONNREFUSED) {
			return
		}
		if err != nil || event.Moment == Arrived {
			t.Fatalf("got %+v and %v, expected a port unreachable error", event, err)
		}
	}
}

func TestListenAndDialRefuseWrongAddresses(t *testing.T) {
	wrong := []netip.AddrPort{{}}
	for _, each := range []string{"0.0.0.0:862", "[::]:862", "192.0.2.1:862"} {
		wrong = append(wrong, netip.MustParseAddrPort(each))
	}
	for _, each := range wrong {
		if socket, err := Listen(each, ""); err == nil {
			socket.Close()
			t.Fatalf("it listens at %v", each)
		}
	}
	if _, err := Listen(netip.MustParseAddrPort("127.0.0.1:0"), "nowhere"); err == nil {
		t.Fatal("it goes by a device that is not there")
	}
	if _, err := Dial(netip.MustParseAddrPort("[::1]:0"), netip.MustParseAddrPort("127.0.0.1:1"), ""); err == nil {
		t.Fatal("IPv4 is reached from IPv6")
	}
}
