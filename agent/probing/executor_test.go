// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/lab"
)

// patience bounds every wait. A loaded machine may stall for a while.
const patience = time.Minute

// pair is an executor at each end of the paths wifi and lte.
type pair struct {
	t              *testing.T
	client, server *lab.Host
	near, far      *Executor
	endFar         func()
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t}
	p.client, p.server = lab.Two(t)
	p.near, _ = p.executor(p.client)
	p.far, p.endFar = p.executor(p.server)
	return p
}

func (p *pair) executor(at *lab.Host) (*Executor, func()) {
	h := NewExecutor(at.Try, slog.New(slog.DiscardHandler))
	h.retryEvery = 100 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	end := func() {
		stop()
		select {
		case <-ended:
		case <-time.After(patience):
			p.t.Error("the executor does not end")
		}
	}
	p.t.Cleanup(end)
	return h, end
}

// done expects an order to succeed.
func (p *pair) done(said string, err error) {
	p.t.Helper()
	if err != nil || said == "" {
		p.t.Fatalf("%q, %v", said, err)
	}
}

func (p *pair) answer(sessions ...*agentv1.AnswerSession) {
	p.t.Helper()
	said, err := p.far.Answer(&agentv1.AnswerProbes{Sessions: sessions})
	if err != nil && strings.Contains(err.Error(), unix.EADDRINUSE.Error()) {
		return // a command that another test has just forked still holds the port; the executor retries
	}
	p.done(said, err)
}

func (p *pair) watch(paths ...*agentv1.HealthPath) {
	p.t.Helper()
	p.done(p.near.Health(&agentv1.HealthProbes{Paths: paths}))
}

// await waits until both reports satisfy a condition and returns the report of the first path.
func (p *pair) await(what string, is func(*agentv1.PathHealth, *agentv1.Answering) bool) *agentv1.PathHealth {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, health := p.near.Report()
		answering, _ := p.far.Report()
		if is(health[0], answering) {
			return health[0]
		}
		if time.Now().After(end) {
			p.t.Fatalf("timeout waiting until %s: %v, %v", what, health, answering)
		}
	}
}

func (p *pair) came() *agentv1.ProbeReport {
	p.t.Helper()
	select {
	case probed := <-p.near.Probed():
		return probed
	case <-time.After(patience):
		p.t.Fatal("the probe has no result")
		return nil
	}
}

func TestHealthReportsLossOnACutPath(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.answer(answerSession(1))
	p.watch(healthPath("wifi", 1))
	h := p.await("packets are counted, and the last are answered", func(h *agentv1.PathHealth, a *agentv1.Answering) bool {
		return h.Sent >= 10 && h.Windows[0].Sent > 0 && h.Windows[0].Lost == 0 && a.HealthPackets > h.Sent && h.Lost <= h.Sent/2
	})
	if h.Name != "wifi" || h.Reason != "" || len(h.Windows) != 3 || h.Late > h.Sent {
		t.Fatalf("%v", h)
	}
	for n, seconds := range []uint32{1, 10, 60} {
		if w := h.Windows[n]; w.Seconds != seconds || w.Reason != "" || w.RttLeastUs == 0 || w.RttLeastUs > w.RttP95Us {
			t.Fatalf("%v", w)
		}
	}
	p.server.Blacken("wifi", "10.1.0.1")
	p.await("it loses", func(now *agentv1.PathHealth, _ *agentv1.Answering) bool {
		return now.Lost >= h.Lost+10 && now.Windows[0].Lost == now.Windows[0].Sent
	})
	p.server.Run("ip", "neigh", "del", "10.1.0.1", "dev", "wifi")
	p.await("the direction is known", func(now *agentv1.PathHealth, a *agentv1.Answering) bool {
		return now.LostBack >= h.LostBack+10 && a.Unauthenticated+a.Replays+a.TooMany == 0
	})
}

func TestOrdersKeepUnchangedItemsWhenReplaced(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	second, third := answerSession(2), answerSession(3)
	p.answer(answerSession(1), second)
	p.watch(healthPath("wifi", 1), healthPath("lte", 2))
	answers := func(h *agentv1.PathHealth, a *agentv1.Answering) bool { return h.Windows[0].Sent > h.Windows[0].Lost }
	p.await("packets are answered", answers)
	listener, probes, sender := p.far.answers.listeners[8620], p.far.answers.listeners[8631], p.near.paths[0].sender
	_, before := p.near.Report()

	changed, other := answerSession(2), healthPath("lte", 2)
	changed.Key, other.Key = make([]byte, 32), make([]byte, 32)
	other.Route = &agentv1.ProbeRoute{Remote: "fd02::2"}
	p.answer(third, changed, answerSession(1))
	p.watch(other, healthPath("wifi", 1))
	if p.far.answers.listeners[8620] != listener || p.far.answers.listeners[8631] != probes || p.near.paths[1].sender != sender {
		t.Fatal("what is the same did not go on")
	}
	if _, after := p.near.Report(); after[0].Name != "lte" || after[0].Sent > 0 || after[1].Sent < before[0].Sent {
		t.Fatalf("%v after %v, expected new counts for lte", after, before)
	}
	p.await("the path with another key is answered", answers)
	p.await("both go on", func(_ *agentv1.PathHealth, a *agentv1.Answering) bool {
		return a.Replays == 0 && sender.Sending().Wrong == 0
	})

	p.done(p.far.Answer(nil))
	p.done(p.near.Health(nil))
	answering, health := p.far.Report()
	if answering != nil || health != nil || sender.Local().IsValid() {
		t.Fatalf("%v, %v, %v", answering, health, sender.Local())
	}
}

func TestAnswerCountsPacketsOfAnotherKey(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	session := answerSession(1)
	session.Key = make([]byte, 32)
	p.answer(session)
	p.watch(healthPath("wifi", 1))
	p.await("all is lost, and counted", func(h *agentv1.PathHealth, a *agentv1.Answering) bool {
		return h.Sent > 10 && h.Lost == h.Sent && h.LostThere+h.LostBack == 0 && a.Unauthenticated >= h.Sent && a.HealthPackets == 0
	})
}

func TestAnswerRetriesAPortInUse(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var taken net.PacketConn
	p.server.Do(func() (err error) {
		taken, err = net.ListenPacket("udp", ":8631")
		return err
	})
	said, err := p.far.Answer(&agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{answerSession(1)}})
	if err == nil || !strings.Contains(err.Error(), "UDP port 8631") || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("%q, %v", said, err)
	}
	p.watch(healthPath("wifi", 1))
	p.await("the others are answered", func(h *agentv1.PathHealth, a *agentv1.Answering) bool {
		return a.HealthPackets > 0 && strings.Contains(a.Reason, "UDP port 8631")
	})
	taken.Close()
	p.await("the port is had", func(_ *agentv1.PathHealth, a *agentv1.Answering) bool { return a.Reason == "" })
	p.done(p.near.Probe(1, probeOrder()))
	if probed := p.came(); probed.Reason != "" {
		t.Fatalf("%v", probed)
	}
}

func TestHealthUsesADeviceThatAppearsLater(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.answer(answerSession(1))
	path := healthPath("usb", 1)
	path.Route = &agentv1.ProbeRoute{Device: "usb", Local: "10.7.0.1", Remote: lab.Service}
	if said, err := p.near.Health(&agentv1.HealthProbes{Paths: []*agentv1.HealthPath{path}}); err == nil || !strings.Contains(err.Error(), "usb") {
		t.Fatalf("%q, %v", said, err)
	}
	said := func(word string) {
		p.await("the reason has "+word, func(h *agentv1.PathHealth, _ *agentv1.Answering) bool { return strings.Contains(h.Reason, word) })
	}
	said("device usb")
	plug := func() {
		p.client.Run("ip", "link", "add", "usb", "type", "veth", "peer", "name", "usb", "netns", p.server.Path())
		for _, host := range []*lab.Host{p.client, p.server} {
			host.Run("ip", "link", "set", "usb", "up")
		}
		p.server.Run("ip", "address", "add", "10.7.0.2/24", "dev", "usb")
		said("10.7.0.1")
		p.client.Run("ip", "address", "add", "10.7.0.1/24", "dev", "usb")
		p.client.Run("ip", "route", "add", lab.Service, "via", "10.7.0.2", "dev", "usb")
	}
	plug()
	p.await("it is answered", func(h *agentv1.PathHealth, _ *agentv1.Answering) bool {
		return h.Reason == "" && h.Windows[0].Sent > h.Windows[0].Lost
	})
	p.client.Run("ip", "link", "del", "usb")
	said("device usb")
	lost := uint64(0)
	p.await("what cannot be sent is lost", func(h *agentv1.PathHealth, _ *agentv1.Answering) bool { lost = h.Lost; return h.Lost > 5 })
	plug()
	p.await("it is answered again, and counts continue", func(h *agentv1.PathHealth, a *agentv1.Answering) bool {
		return h.Reason == "" && h.Windows[0].Sent > h.Windows[0].Lost && h.Lost >= lost && a.Replays+a.Unauthenticated == 0
	})
}

func TestProbeReportsTimesOfBothEnds(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.answer(answerSession(1), answerSession(2))
	for n, down := range []bool{false, true} { // one session each: a session stays occupied for a while
		order := probeOrder()
		order.Port, order.Down = uint32(8631+n), down
		p.done(p.near.Probe(uint64(7+n), order))
		if _, err := p.near.Probe(99, probeOrder()); err == nil || !strings.Contains(err.Error(), "wifi is being probed") {
			t.Fatalf("a second one: %v", err)
		}
		m := p.came()
		packets := 9*5 + 2*10
		if leftOut := strings.Contains(m.Reason, "left out"); down && leftOut { // where the requests take as long as the answers
			packets = len(m.Lengths)
		} else if m.Reason != "" {
			t.Fatalf("down %v: %v", down, m)
		}
		if m.Directive != uint64(7+n) || len(m.Lengths) != packets || packets < 9*5 || m.Transport != "udp" || m.Hardware {
			t.Fatalf("down %v: %v", down, m)
		}
		whole, heard := 0, 0
		for n := range packets {
			if m.SentNs[n] != 0 && m.ReceivedNs[n] != 0 { // the first packets may lack timestamps
				whole++
			}
			if m.ReturnedNs[n] != 0 {
				heard++
			}
			if singly := n < 9*5; singly != (m.Trains[n] == 0) || m.Lengths[n] < 64 || m.Lengths[n] > 1440 {
				t.Fatalf("packet %d of %d bytes is of train %d", n, m.Lengths[n], m.Trains[n])
			}
		}
		if whole < packets/2 || down != (heard == 0) {
			t.Fatalf("down %v: of %d packets %d have both times: %v", down, packets, whole, m)
		}
		if since := time.Since(time.Unix(0, m.SenderOriginNs)); since < 0 || since > patience {
			t.Fatalf("down %v: the first was sent %v ago", down, since)
		}
	}
}

func TestProbeEndsWhenThePeerStops(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.answer(answerSession(1))
	order := probeOrder()
	order.Tries = 2000
	p.watch(healthPath("wifi", 1))
	p.done(p.near.Probe(1, order))
	p.await("probes are answered", func(_ *agentv1.PathHealth, a *agentv1.Answering) bool { return a.Probes > 30 })
	p.done(p.far.Answer(nil))
	m := p.came()
	if !strings.Contains(m.Reason, "went away") || len(m.Lengths) < 20 || len(m.Lengths) > 9*2000 {
		t.Fatalf("%d packets, and then %q", len(m.Lengths), m.Reason)
	}
	p.done(p.near.Probe(2, probeOrder()))
	if m := p.came(); m.Directive != 2 || !strings.Contains(m.Reason, "nobody listens") || len(m.Lengths) != 0 {
		t.Fatalf("%v", m)
	}
	order.Route.Device = "usb"
	if said, err := p.near.Probe(3, order); err == nil || !strings.Contains(err.Error(), "usb") {
		t.Fatalf("%q, %v", said, err)
	}
}

func TestProbeIsVoidWhenOurClockIsSet(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.answer(answerSession(1))
	set := time.Duration(0)
	p.near.now = func() clock.Instant {
		now := clock.Now()
		now.Wall += int64(set)
		set += 30 * time.Millisecond
		return now
	}
	p.done(p.near.Probe(1, probeOrder()))
	if m := p.came(); !strings.Contains(m.Reason, "this host's clock was set by") || len(m.Lengths) != 0 {
		t.Fatalf("%v", m)
	}
}

func TestRunReleasesAllPortsAtItsEnd(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	back := answerSession(1)
	p.answer(answerSession(1))
	p.done(p.near.Answer(&agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{back}}))
	there := healthPath("back", 1)
	there.Route.Remote = "10.1.0.1"
	p.done(p.far.Health(&agentv1.HealthProbes{Paths: []*agentv1.HealthPath{there}}))
	order := probeOrder()
	order.Route.Remote, order.Tries = "10.1.0.1", 2000
	p.done(p.far.Probe(1, order))
	p.endFar()
	for n, order := range []func() (string, error){
		func() (string, error) {
			return p.far.Answer(&agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{back}})
		},
		func() (string, error) {
			return p.far.Health(&agentv1.HealthProbes{Paths: []*agentv1.HealthPath{there}})
		},
		func() (string, error) { return p.far.Probe(2, order) },
	} {
		if said, err := order(); err == nil || !strings.Contains(err.Error(), "ending") {
			t.Fatalf("order %d: %q, %v", n, said, err)
		}
	}
	p.server.Do(func() error { // the ports are free again
		for _, port := range []int{8620, 8631} {
			conn, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			conn.Close()
		}
		return nil
	})
}
