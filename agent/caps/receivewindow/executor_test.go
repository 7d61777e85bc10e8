// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	"bicast/api/agentv1"
)

const (
	toHold    = "WINDOW_TEST_ORDER"   // environment variable: run as an agent with this order
	byFilters = "WINDOW_TEST_FILTERS" // environment variable: attach filters instead of links
)

func TestMain(m *testing.M) {
	if order := os.Getenv(toHold); order != "" {
		beAgent(order)
	}
	os.Exit(m.Run())
}

func beAgent(text string) {
	order := &agentv1.Caps{}
	if err := protojson.Unmarshal([]byte(text), order); err != nil {
		panic(err)
	}
	executor := NewExecutor(func(work func() error) error { return work() }, discard())
	if os.Getenv(byFilters) != "" {
		executor.attach = attachFilters
	}
	if _, err := executor.Order(order); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("stands\n")
	executor.Run(context.Background())
}

// agent starts an agent in its own process and returns a function that kills it.
func (h *house) agent(order *agentv1.Caps, environment ...string) (kill func()) {
	h.t.Helper()
	text, err := protojson.Marshal(order)
	h.must(err)
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(append(os.Environ(), toHold+"="+string(text)), environment...)
	out, err := agent.StdoutPipe()
	h.must(err)
	h.gateway.Do(agent.Start)
	h.t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		h.t.Fatal("the agent did not come up")
	}
	return func() {
		h.must(agent.Process.Signal(unix.SIGKILL))
		agent.Wait()
	}
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// end ends everything as if seconds had passed.
func (h *house) end() {
	h.t.Helper()
	h.order(&agentv1.Caps{})
	h.executor.ending = h.executor.ending.Add(-liftDuration)
	h.executor.Tick()
	if h.executor.programs != nil {
		h.t.Fatal("the programs are still there")
	}
}

// bears counts the programs with filters at a port.
func (h *house) bears(port string) (ours int) {
	h.t.Helper()
	for _, direction := range []string{"egress", "ingress"} {
		for line := range strings.Lines(h.gateway.Run("tc", "filter", "show", "dev", port, direction)) {
			if strings.Contains(line, "bicast_") {
				ours++
			}
		}
	}
	return ours
}

func TestOrderRefusesInvalidCaps(t *testing.T) {
	h := newHouse(t)
	one := func(change func(*agentv1.Caps)) *agentv1.Caps {
		order := capped(10, lasting)
		change(order)
		return order
	}
	for says, order := range map[string]*agentv1.Caps{
		"lease":               one(func(o *agentv1.Caps) { o.LeaseMs = 499 }),
		"a lease of 11s":      one(func(o *agentv1.Caps) { o.LeaseMs = 11_000 }),
		"two caps":            one(func(o *agentv1.Caps) { o.Caps[1].TerminalAddress = "::ffff:" + phone }),
		"4097 caps":           one(func(o *agentv1.Caps) { o.Caps = make([]*agentv1.Cap, 4097) }),
		"0 segments":          one(func(o *agentv1.Caps) { o.Caps[0].MostSegments = 0 }),
		"at least":            one(func(o *agentv1.Caps) { o.Caps[0].LeastSegments = 11 }),
		"\"no\"":              one(func(o *agentv1.Caps) { o.Caps[0].TerminalAddress = "no" }),
		"\"\"":                one(func(o *agentv1.Caps) { o.Caps[0].OtherAddress = "" }),
		"the same IP version": one(func(o *agentv1.Caps) { o.Caps[0].OtherAddress = service6 }),
		"without zones":       one(func(o *agentv1.Caps) { o.Caps[0].TerminalAddress, o.Caps[0].OtherAddress = "fe80::1%wifi", "fe80::2" }),
		"without a port":      one(func(o *agentv1.Caps) { o.Ports = nil }),
		"used twice":          one(func(o *agentv1.Caps) { o.Ports = []string{"wifi", "wifi"} }),
		"is empty":            one(func(o *agentv1.Caps) { o.Ports = []string{""} }),
		"257 ports":           one(func(o *agentv1.Caps) { o.Ports = make([]string, 257) }),
	} {
		if said, err := h.executor.Order(order); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, %v, expected an error with %q", said, err, says)
		}
	}
	if h.executor.Report() != nil {
		t.Error("programs are attached nevertheless")
	}
}

func TestMissingPortDoesNotAffectOthers(t *testing.T) {
	h := newHouse(t)
	order := capped(10, lasting)
	order.Ports = append(order.Ports, "nowhere")
	if said, err := h.executor.Order(order); err != nil {
		t.Fatalf("the order returns %q, %v, expected the other ports to be attached", said, err)
	}
	if missing := h.executor.Report().GetMissing(); len(missing) != 1 || missing[0].Port != "nowhere" {
		t.Fatalf("the report misses the ports %v, expected the absent one", missing)
	}
}

func TestReturningPortIsAttachedAgain(t *testing.T) {
	h := newHouse(t)
	h.order(capped(10, lasting))
	h.gateway.Run("ip", "link", "del", "wifi")
	h.executor.Tick()
	missing := h.executor.Report().GetMissing()
	if len(missing) != 1 || missing[0].Port != "wifi" || !strings.Contains(missing[0].Reason, "the network device wifi does not exist") {
		t.Fatalf("the report misses the ports %v, expected the absent one", missing)
	}
	h.wire("wifi", "1")
	h.executor.Tick()
	if missing := h.executor.Report().GetMissing(); len(missing) != 0 {
		t.Fatal(missing)
	}
	if _, err := h.executor.Order(capped(10, lasting)); err != nil {
		t.Fatal(err)
	}
}

func TestSecondAgentTakesOverWhenTheFirstEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.order(capped(0, lasting)) // no window is lowered, so Run ends without a wait
	second := h.another()
	if _, err := second.Order(capped(10, lasting)); err == nil || !strings.Contains(err.Error(), "another agent (process") {
		t.Fatalf("%v, expected to be refused", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.lasts = nil
	h.executor.Run(ctx)
	// A child that another test forks holds copies of the links and the claim until it calls exec.
	h.await("the programs are gone", func() bool { return h.attachedLinks("wifi") == 0 })
	h.await("the second has taken over", func() bool {
		second.Tick()
		return len(second.Report().GetMissing()) == 0
	})
}

func TestOrderFailsOnceTheExecutorHasEnded(t *testing.T) {
	h := newHouse(t)
	h.order(capped(0, lasting)) // no window is lowered, so Run ends without a wait
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.executor.Run(ctx)
	if said, err := h.executor.Order(capped(10, lasting)); err == nil || h.executor.Report() != nil || h.attachedLinks("wifi") != 0 {
		t.Fatalf("%q, %v, %v and %d programs, expected to be refused", said, err, h.executor.Report(), h.attachedLinks("wifi"))
	}
}

func TestKilledAgentLeavesNoLinks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	narrow(h.gateway, "wan", rate)
	kill := h.agent(capped(8, lasting))
	conn := h.upload(h.sink(service, false), false)
	h.await("it is held", func() bool { return h.waiting(h.gateway, "wan") > 0 })
	h.atMost(9, conn)
	kill()
	h.await("nothing holds it", func() bool { return h.outgrows(8) })
	if exists := h.attachedLinks("wifi"); exists != 0 {
		t.Fatalf("%d programs are still there", exists)
	}
	h.order(capped(8, lasting))
}

func TestFiltersOfAKilledAgentAreReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	narrow(h.gateway, "wan", rate)
	kill := h.agent(capped(8, 3*time.Second), byFilters+"=1")
	conn := h.upload(h.sink(service, false), false)
	h.await("it is held", func() bool { return h.waiting(h.gateway, "wan") > 0 })
	h.atMost(9, conn)
	kill()
	if h.bears("wifi") != 2 {
		t.Fatal("expected that the filters stay")
	}
	h.await("nothing holds it", func() bool { return h.outgrows(8) })
	h.executor.attach = attachFilters
	h.order(capped(8, lasting))
	if ours := h.bears("wifi"); ours != 2 {
		t.Fatalf("%d filters, expected one each way", ours)
	}
	h.end()
	if ours := h.bears("wifi"); ours != 0 {
		t.Fatalf("%d filters, expected none", ours)
	}
}

func TestRemovedFiltersAreRestored(t *testing.T) {
	h := newHouse(t)
	h.executor.attach = attachFilters
	h.order(capped(10, lasting))
	for name, away := range map[string][]string{
		"all": {"qdisc", "del", "dev", "wifi", "clsact"}, "one": {"filter", "del", "dev", "wifi", "ingress"},
	} {
		h.gateway.Run(append([]string{"tc"}, away...)...)
		if ours := h.bears("wifi"); ours == 2 {
			t.Fatalf("%s: they are still there", name)
		}
		h.executor.Tick()
		if ours := h.bears("wifi"); ours != 2 || len(h.executor.Report().GetMissing()) != 0 {
			t.Fatalf("%s: %d filters, %v: expected one each way", name, ours, h.executor.Report().GetMissing())
		}
	}
	h.end()
	if ours := h.bears("wifi"); ours != 0 {
		t.Fatalf("%d filters, expected none", ours)
	}
}

func TestForeignFiltersStay(t *testing.T) {
	for name, attach := range map[string]attacher{"links": nil, "filters": attachFilters} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.executor.attach = attach
			h.gateway.Run("tc", "qdisc", "add", "dev", "wifi", "clsact")
			h.gateway.Run("tc", "filter", "add", "dev", "wifi", "egress", "protocol", "ip", "u32", "match", "u32", "0", "0", "classid", "1:1")
			before := h.gateway.Run("tc", "filter", "show", "dev", "wifi", "egress")
			h.order(capped(10, lasting))
			if conn := h.dial(h.sink(service, false), false); conn == nil || h.executor.Report().HeldSockets != 1 {
				t.Fatalf("%v, expected that it is held", h.executor.Report())
			}
			h.end()
			if after := h.gateway.Run("tc", "filter", "show", "dev", "wifi", "egress"); after != before {
				t.Fatalf("%s, expected %s", after, before)
			}
		})
	}
}
