// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/portxdp"
)

var (
	many     = flag.Int("packets", 100_000, "that the deluge is of")
	toldHere = flag.String("told", "", "a file for what became of the deluge, as JSON")
)

const (
	conversations = 1000
	tick          = time.Millisecond
	inATick       = 50  // packets
	skewMost      = 200 // maximum delay of a path in ticks; it changes now and then
	jitterMost    = 20  // maximum additional ticks for each packet
	bursts        = 0.002
	burstEnds     = 0.05 // 1 in 26 packets is lost, 20 in a row
	deaf          = time.Minute
	ownPort       = 4242
)

// The totals of all packets, counted from the numbers that the packets contain.
type deluged struct {
	Sent       int     `json:"sent"`
	LostByBoth int     `json:"lost_by_both"` // packets that both paths lost
	Delivered  int     `json:"delivered"`
	Lost       int     `json:"lost_by_elimination"`
	Duplicated int     `json:"duplicated"`
	Late       uint64  `json:"late"`
	Rogue      uint64  `json:"rogue"`
	Evicted    uint64  `json:"evicted"`
	WindowMS   float64 `json:"window_ms"`
	RoomBefore uint32  `json:"room_before"` // identities that the table holds at the start
	Room       uint32  `json:"room"`
	Seconds    float64 `json:"seconds"`
}

// lane is a path with bursts of losses, a delay for each packet, and a delay for all packets that changes now and then.
type lane struct {
	random *rand.Rand
	out    *mouth
	paced  chan [][]byte // packets of a tick
	due    [skewMost + jitterMost + 1][][]byte
	bad    bool
	skew   int
	holds  int // ticks until the skew changes
}

func newLane(random *rand.Rand, out *mouth) *lane {
	return &lane{random: random, out: out, paced: make(chan [][]byte, 8)}
}

// takes reports whether the path delivers the packet.
func (l *lane) takes(now int, frame []byte) bool {
	change := bursts
	if l.bad {
		change = burstEnds
	}
	if l.random.Float64() < change {
		l.bad = !l.bad
	}
	if l.bad {
		return false
	}
	at := (now + l.skew + l.random.IntN(jitterMost+1)) % len(l.due)
	l.due[at] = append(l.due[at], frame)
	return true
}

func (l *lane) passes(now int) {
	at := now % len(l.due)
	l.paced <- l.due[at]
	l.due[at] = nil
	if l.holds--; l.holds < 0 {
		l.skew, l.holds = l.random.IntN(skewMost+1), l.random.IntN(1000)
	}
}

// of makes a packet of a flow. Of ten flows, one is IPv6. Four have the sender's identifications, which repeat after eight
// packets. Five get identifications at the terminal's port.
func of(number int) []byte {
	conversation := number % conversations
	datagram := make([]byte, 16, 16+500)
	binary.BigEndian.PutUint16(datagram, uint16(conversation+1024))
	binary.BigEndian.PutUint16(datagram[2:], ownPort)
	binary.BigEndian.PutUint64(datagram[8:], uint64(number))
	datagram = datagram[:16+conversation*7%500]
	binary.BigEndian.PutUint16(datagram[4:], uint16(len(datagram)))
	p := ipv4{ttl: 64, protocol: udp, source: byte(conversation), payload: datagram}
	switch kind := conversation % 10; {
	case kind == 0:
		return ipv6{hops: 64, next: udp, payload: datagram}.frame()
	case kind < 5:
		p.id = uint16(number / conversations % 8)
	default:
		p.flags = dontFragment
	}
	return p.frame()
}

// numberOf returns false for other packets.
func numberOf(frame []byte) (number int, ours bool) {
	at := 14 + 20
	if len(frame) > 13 && binary.BigEndian.Uint16(frame[12:]) == 0x86dd {
		at = 14 + 40
	}
	if len(frame) < at+16 || binary.BigEndian.Uint16(frame[at+2:]) != ownPort {
		return 0, false
	}
	return int(binary.BigEndian.Uint64(frame[at+8:])), true
}

func TestOfADelugeByTwoBadPathsNothingIsLostByElimination(t *testing.T) {
	d := newDeluge(t)
	told := d.runs(*many)
	said, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %s", *seed, said)
	if *toldHere != "" {
		if err := os.WriteFile(*toldHere, append(said, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if told.Lost > 0 || told.Delivered+told.LostByBoth != told.Sent {
		t.Errorf("%d packets were lost by elimination, of %d", told.Lost, told.Sent)
	}
	if told.Duplicated > told.Sent*9/10 { // without elimination it would be 92 of 100: those that neither path loses
		t.Errorf("%d of %d packets came twice: nothing is eliminated", told.Duplicated, told.Sent)
	}
}

// The terminal's port, where packets get identifications, and the ports where copies arrive.
type deluge struct {
	*site
	terminal *mouth
	numbered *ear
	lanes    [2]*lane
	heard    *ear
}

func newDeluge(t *testing.T) *deluge {
	d := &deluge{site: newSite(t)}
	d.far.Run("ip", "link", "add", "phone", "type", "veth", "peer", "name", "inside")
	for _, name := range []string{"phone", "inside"} {
		d.far.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "1")
		d.far.Run("ip", "link", "set", name, "up")
	}
	d.quiet()
	stamps := portxdp.New(d.far.Try, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { stamps.Close() })
	stamps.Number([]string{"inside"})
	if missing := stamps.Missing(); len(missing) > 0 {
		t.Fatal(missing)
	}
	order := ordered(roads[:]...)
	order.WindowFloorMs, order.WindowCeilingMs = 200, 1000 // the controller's defaults
	d.order(order)
	d.far.Do(func() error {
		d.terminal, d.numbered = newMouth(t, "phone"), newEar(t, "inside")
		for path, name := range roads {
			random := rand.New(rand.NewPCG(*seed, uint64(path)))
			d.lanes[path] = newLane(random, newMouth(t, name))
		}
		return nil
	})
	d.host.Do(func() error {
		d.heard = newEar(t, "")
		return nil
	})
	return d
}

func (d *deluge) runs(packets int) deluged {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go d.executor.Run(ctx)
	told := deluged{Sent: packets, RoomBefore: d.room()}
	carried := make([]uint8, packets) // by packet number: how many paths delivered it
	sent := make(chan error, len(d.lanes))
	for path, each := range d.lanes {
		go func() { sent <- each.out.sends(each.paced, d.judged(path)) }()
	}
	stop, heard := make(chan struct{}), make(chan hearing)
	go func() { heard <- d.heard.counts(packets, stop, d.passed) }()

	begun := time.Now()
	d.sends(packets, carried)
	told.Seconds = time.Since(begun).Seconds()
	for _, each := range d.lanes {
		close(each.paced)
	}
	for range d.lanes {
		if err := <-sent; err != nil {
			d.t.Fatal(err)
		}
	}
	report := d.executor.Report()
	told.Room = d.room()
	close(stop)
	all := <-heard
	if all.err != nil {
		d.t.Fatal(all.err)
	}
	told.count(carried, all.times)
	for _, path := range report.GetPaths() {
		told.Late += path.GetLate()
		told.Rogue += path.GetRogue()
		told.Evicted += path.GetEvicted()
	}
	told.WindowMS = float64(report.GetWindowUs()) / 1000
	return told
}

func (o *deluged) count(carried, came []uint8) {
	for number, times := range came {
		switch {
		case times > 0:
			o.Delivered++
			o.Duplicated += int(times) - 1
		case carried[number] > 0:
			o.Lost++
		default:
			o.LostByBoth++
		}
	}
}

// sends sends the packets, and waits until the slower path has delivered its copies.
func (d *deluge) sends(packets int, carried []uint8) {
	due := time.Now()
	last := (packets-1)/inATick + len(d.lanes[0].due)
	for now := 0; now <= last; now++ {
		first := min(now*inATick, packets)
		for _, frame := range d.stamped(first, min(first+inATick, packets)) {
			number, _ := numberOf(frame)
			for _, each := range d.lanes {
				if each.takes(now, frame) {
					carried[number]++
				}
			}
		}
		for _, each := range d.lanes {
			each.passes(now)
		}
		due = due.Add(tick)
		time.Sleep(time.Until(due))
		if time.Since(due) > 10*tick { // skips missed ticks
			due = time.Now()
		}
	}
}

// stamped returns packets as they leave a terminal's port.
func (d *deluge) stamped(first, last int) [][]byte {
	for number := first; number < last; number++ {
		d.must(d.terminal.write(of(number)))
	}
	frames, deadline := make([][]byte, 0, last-first), time.Now().Add(deaf)
	for len(frames) < last-first {
		frame, err := d.numbered.read()
		if errors.Is(err, unix.EAGAIN) && time.Now().Before(deadline) {
			continue
		}
		d.must(err)
		if _, ours := numberOf(frame); ours {
			frames = append(frames, slices.Clone(frame))
		}
	}
	return frames
}

func (d *deluge) must(err error) {
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deluge) room() uint32 {
	d.executor.mutex.Lock()
	defer d.executor.mutex.Unlock()
	return (d.executor.copies.settings.BucketsMask + 1) * ways
}

// judged returns how many packets of a path the program has handled, and passed how many of all paths it passed.
func (d *deluge) judged(path int) func() (uint64, error) {
	return func() (uint64, error) {
		c, err := d.counters(path)
		return c.First + c.Eliminated + c.Late + c.Rogue, err
	}
}

func (d *deluge) passed() (all uint64, err error) {
	for path := range d.lanes {
		c, err := d.counters(path)
		if err != nil {
			return 0, err
		}
		all += c.First + c.Late + c.Rogue
	}
	return all, nil
}

func (d *deluge) counters(path int) (total Counters, err error) {
	var each []Counters // one for each processor
	err = d.executor.copies.objects.Counts.Lookup(uint32(path), &each)
	for _, one := range each {
		total.add(one)
	}
	return total, err
}
