package eliminate

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"bicast/internal/lab"
)

const (
	passed  = 2 // XDP_PASS
	dropped = 1 // XDP_DROP

	wifi, lte = 0, 1
)

// Two devices of a host as the places where two paths come in; packets are shown to the program, and none is sent.
type bench struct {
	t    *testing.T
	host *lab.Host
	e    *Eliminator
	at   map[int]uint32 // the device's index of each path
}

func newBench(t *testing.T, identities int) *bench {
	t.Helper()
	e, err := Load(identities)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	b := &bench{t: t, e: e, at: map[int]uint32{}}
	b.host, _ = lab.Two(t)
	b.host.Do(func() error {
		for path, name := range map[int]string{wifi: "wifi", lte: "lte"} {
			device, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			b.at[path] = uint32(device.Index)
			if err := e.objects.Places.Put(place{uint32(device.Index), noVNI}, uint32(path)); err != nil {
				return err
			}
		}
		return nil
	})
	b.renew(time.Minute, time.Minute)
	return b
}

func (b *bench) renew(window, lease time.Duration) {
	b.t.Helper()
	if err := b.e.Renew(window, lease); err != nil {
		b.t.Fatal(err)
	}
}

// struct xdp_md
type arrival struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

func (b *bench) comes(path int, frame []byte) (verdict uint32) {
	b.t.Helper()
	b.host.Do(func() (err error) {
		verdict, err = b.e.objects.Program.Run(&ebpf.RunOptions{
			Data: frame, Context: arrival{DataEnd: uint32(len(frame)), IngressIfindex: b.at[path]},
		})
		return err
	})
	return verdict
}

// expect shows packets by turns and says what shall become of each.
func (b *bench) expect(verdict uint32, path int, frame []byte, why string) {
	b.t.Helper()
	if got := b.comes(path, frame); got != verdict {
		b.t.Fatalf("%s: verdict %d, expected %d", why, got, verdict)
	}
}

func (b *bench) counters() []Counters {
	b.t.Helper()
	all, err := b.e.Counters()
	if err != nil {
		b.t.Fatal(err)
	}
	return all[:]
}

type ipv4 struct {
	id       uint16
	flags    uint16 // with the fragment's offset
	ttl, tos uint8
	protocol uint8
	options  []byte // of a length that is a multiple of four
	payload  []byte
	source   byte
	tags     []uint16
}

func (p ipv4) frame() []byte {
	header := make([]byte, 20+len(p.options))
	header[0] = 0x40 | byte(len(header)/4)
	header[1] = p.tos
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(p.payload)))
	binary.BigEndian.PutUint16(header[4:], p.id)
	binary.BigEndian.PutUint16(header[6:], p.flags)
	header[8], header[9] = p.ttl, p.protocol
	copy(header[12:], []byte{10, 0, 0, p.source})
	copy(header[16:], []byte{10, 9, 9, 9})
	copy(header[20:], p.options)
	return ethernet(p.tags, 0x0800, append(header, p.payload...))
}

type ipv6 struct {
	label, hops uint8
	next        uint8
	payload     []byte
}

func (p ipv6) frame() []byte {
	header := make([]byte, 40)
	header[0], header[3] = 0x60, p.label
	binary.BigEndian.PutUint16(header[4:], uint16(len(p.payload)))
	header[6], header[7] = p.next, p.hops
	header[8], header[24] = 0xfd, 0xfd
	return ethernet(nil, 0x86dd, append(header, p.payload...))
}

func ethernet(tags []uint16, kind uint16, packet []byte) []byte {
	frame := make([]byte, 12, 64)
	for _, tag := range tags {
		frame = binary.BigEndian.AppendUint16(frame, 0x8100)
		frame = binary.BigEndian.AppendUint16(frame, tag)
	}
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	for len(frame) < 60 { // padding, as drivers show it
		frame = append(frame, 0)
	}
	return frame
}

const (
	icmp, tcp, udp, esp = 1, 6, 17, 50
	dontFragment        = 0x4000
)

func numbered(id uint16) ipv4 {
	return ipv4{id: id, ttl: 64, protocol: udp, payload: []byte("0123456789abcdefghijklmnop"), source: 1}
}

func TestOfTwoCopiesTheFirstPasses(t *testing.T) {
	b := newBench(t, 1024)
	for id := range uint16(100) {
		first, second := int(id%2), int(1-id%2)
		b.expect(passed, first, numbered(id).frame(), "the first")
		b.expect(dropped, second, numbered(id).frame(), "its copy")
	}
	for path, c := range b.counters()[:2] {
		if c.First != 50 || c.Eliminated != 50 {
			t.Errorf("path %d: %+v, expected that either won half", path, c)
		}
	}
}

func TestWhatOnePathBringsTwiceIsTwoPackets(t *testing.T) {
	b := newBench(t, 1024)
	same := numbered(7).frame()
	b.expect(passed, wifi, same, "the first")
	b.expect(dropped, lte, same, "its copy")
	b.expect(passed, wifi, same, "the second, which is another packet")
	b.expect(dropped, lte, same, "its copy")
	b.expect(passed, lte, same, "a third, first by the other path")
	if c := b.counters(); c[wifi].Rogue != 1 || c[lte].Rogue != 1 {
		t.Errorf("%+v", c[:2])
	}
}

func TestAfterTheWindowACopyPassesAndAfterTheLeaseEverythingDoes(t *testing.T) {
	b := newBench(t, 1024)
	b.renew(0, time.Minute)
	b.expect(passed, wifi, numbered(1).frame(), "the first")
	b.expect(passed, lte, numbered(1).frame(), "one after the window")
	if late := b.counters()[lte].Late; late != 1 {
		t.Errorf("%d late, expected 1", late)
	}
	b.renew(time.Minute, -time.Second)
	b.expect(passed, wifi, numbered(2).frame(), "the first")
	b.expect(passed, lte, numbered(2).frame(), "its copy, past the lease")
	b.renew(time.Minute, time.Minute)
	b.expect(passed, wifi, numbered(2).frame(), "the first, of which nothing was remembered")
}

func TestCopiesAreKnownWhateverRoutersOnTheWayChange(t *testing.T) {
	for name, changed := range map[string]func(p *ipv4){
		"TTL": func(p *ipv4) { p.ttl = 61 },
		"ECN": func(p *ipv4) { p.tos = 3 },
		"DF":  func(p *ipv4) { p.flags ^= dontFragment },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 64)
			p := numbered(9)
			b.expect(passed, wifi, p.frame(), "the first")
			changed(&p)
			b.expect(dropped, lte, p.frame(), "its copy")
		})
	}
	b := newBench(t, 64)
	p := ipv6{label: 3, hops: 64, next: udp, payload: []byte("datagram")}
	b.expect(passed, wifi, p.frame(), "IPv6's first")
	p.hops = 60
	b.expect(dropped, lte, p.frame(), "its copy")
}

func TestTwoPacketsThatDifferAnywhereInTheirIdentityBothPass(t *testing.T) {
	atomic := ipv4{flags: dontFragment, ttl: 64, protocol: udp, payload: slices.Repeat([]byte("x"), 900), source: 1}
	opaque := ipv4{id: 5, ttl: 64, protocol: esp, payload: slices.Repeat([]byte("y"), 901), source: 1}
	last := func(p ipv4) ipv4 {
		p.payload = append(slices.Clone(p.payload[:len(p.payload)-1]), 'z')
		return p
	}
	head := numbered(5)
	head.payload = []byte("0123456789abcdeXghijklmnop")
	for name, two := range map[string][2][]byte{
		"identification":                 {numbered(1).frame(), numbered(2).frame()},
		"source":                         {numbered(1).frame(), func() []byte { p := numbered(1); p.source = 2; return p.frame() }()},
		"protocol":                       {numbered(1).frame(), func() []byte { p := numbered(1); p.protocol = tcp; return p.frame() }()},
		"layer 4's head":                 {numbered(5).frame(), head.frame()},
		"the fragment's place":           {ipv4{id: 1, flags: 0x2000, payload: []byte("a")}.frame(), ipv4{id: 1, flags: 0x2001, payload: []byte("a")}.frame()},
		"a fragment's last byte":         {ipv4{id: 1, flags: 0x0010, protocol: udp, payload: atomic.payload}.frame(), ipv4{id: 1, flags: 0x0010, protocol: udp, payload: last(atomic).payload}.frame()},
		"an atomic datagram's last byte": {atomic.frame(), last(atomic).frame()},
		"an opaque one's last byte":      {opaque.frame(), last(opaque).frame()},
		"VLAN":                           {func() []byte { p := numbered(1); p.tags = []uint16{4}; return p.frame() }(), func() []byte { p := numbered(1); p.tags = []uint16{5}; return p.frame() }()},
		"IPv6's flow label":              {ipv6{label: 1, next: udp, payload: []byte("a")}.frame(), ipv6{label: 2, next: udp, payload: []byte("a")}.frame()},
		"IPv6's last byte":               {ipv6{next: tcp, payload: atomic.payload}.frame(), ipv6{next: tcp, payload: last(atomic).payload}.frame()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1024)
			for _, frame := range two {
				b.expect(passed, wifi, frame, "the first of either")
			}
			for _, frame := range two {
				b.expect(dropped, lte, frame, "the copy of either")
			}
		})
	}
}

func TestWhatHasNoIdentityPassesAsOftenAsItComes(t *testing.T) {
	group := numbered(1).frame()
	group[0] = 0x01
	long := numbered(1)
	long.payload, long.protocol = make([]byte, 3000), esp
	opaque := numbered(1)
	opaque.protocol = esp
	lying := opaque.frame()
	binary.BigEndian.PutUint16(lying[16:], 2000)
	short := numbered(1).frame()[:30]
	headless := numbered(1).frame()
	headless[14] = 0x44 // a header of 16 bytes
	for name, frame := range map[string][]byte{
		"ARP": ethernet(nil, 0x0806, make([]byte, 28)), "a group's": group, "one that is longer than is looked at": long.frame(),
		"one that says it is longer than it is": lying, "half a header": short, "a header too short": headless,
		"three tags": func() []byte { p := numbered(1); p.tags = []uint16{1, 2, 3}; return p.frame() }(),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1024)
			for path := range 2 {
				b.expect(passed, path, frame, name)
				b.expect(passed, path, frame, name)
			}
			if c := b.counters(); c[wifi].Unidentified != 2 || c[lte].Unidentified != 2 {
				t.Errorf("%+v", c[:2])
			}
		})
	}
}

func TestWhereThereIsNoRoomTheOldestIsForgottenAndNothingElse(t *testing.T) {
	b := newBench(t, ways) // one bucket
	for id := range uint16(ways + 1) {
		b.expect(passed, wifi, numbered(id).frame(), "the first")
	}
	for id := uint16(1); id <= ways; id++ {
		b.expect(dropped, lte, numbered(id).frame(), "the copy of one that there was room for")
	}
	if evicted := b.counters()[wifi].Evicted; evicted != 1 {
		t.Errorf("%d evicted, expected 1", evicted)
	}
	b.expect(passed, lte, numbered(0).frame(), "the copy of the one that was forgotten")
}
