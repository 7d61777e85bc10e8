package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/internal/plural"
)

const (
	tendEvery  = time.Second
	tendSoon   = 50 * time.Millisecond // after something of the underlay changed, which is seldom alone
	untilKnown = 1280                  // bytes that go through any path that is good for IPv6
)

// ErrNoGateway is why a terminal and a relay have no tunnels.
var ErrNoGateway = errors.New("tunnels are uplinks of a gateway: run an agent of role gateway where its bridge is")

// Fitter tells the senders behind ports how long packets may be; 0: as long as they like.
type Fitter interface {
	Fit(ports []string, largestBytes int)
	Missing() map[string]error // by port
}

// Hand keeps the tunnels that a controller ordered.
type Hand struct {
	outside func(func() error) error // runs where the tunnels' packets leave
	inside  func(func() error) error // runs in the namespace of the ports
	fitter  Fitter
	log     *slog.Logger
	looks   time.Duration // how often longer packets are tried
	stirred chan struct{} // something of the underlay changed

	mutex     sync.Mutex
	order     *agentv1.Tunnels // nil: none
	host      *surroundings
	release   func() error // what was taken for them all
	tunnels   map[string]*tunnel
	strangers map[string]uint64
	fitted    int // what senders were told; 0: nothing yet
}

// NewHand has nothing to do yet.
func NewHand(outside, inside func(func() error) error, fitter Fitter, log *slog.Logger) *Hand {
	return &Hand{
		outside: outside, inside: inside, fitter: fitter, log: log, looks: lookEvery, stirred: make(chan struct{}, 1),
		tunnels: map[string]*tunnel{},
	}
}

// Order takes the place of the order before; what is the same stays as it is.
func (h *Hand) Order(order *agentv1.Tunnels) (string, error) {
	if err := check(order); err != nil {
		return "", err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(order.GetTunnels()) == 0 {
		return "there are no tunnels", h.let()
	}
	if h.order == nil || !proto.Equal(h.order, order) {
		if err := h.begin(order); err != nil {
			return "", errors.Join(err, h.let())
		}
	}
	h.tend()
	for _, each := range order.GetTunnels() {
		if because := h.tunnels[each.GetName()].trouble(); because != nil {
			return "", fmt.Errorf("%s: %w", each.GetName(), because)
		}
	}
	return fmt.Sprintf("%s made, by which the other end is looked for", plural.Of(len(order.GetTunnels()), "tunnel")), nil
}

// Run tends them until the context ends, and then takes them away.
func (h *Hand) Run(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	var soon <-chan time.Time
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			h.see()
		case <-h.stirred:
			if soon == nil {
				soon = time.After(tendSoon)
			}
		case <-soon:
			soon = nil
			h.see()
		case <-ctx.Done():
		}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := h.let(); err != nil {
		h.log.Error("the tunnels did not end well", "because", err)
	}
}

// Report is nil where nothing is ordered.
func (h *Hand) Report() *agentv1.Tunnelling {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.order == nil {
		return nil
	}
	report := &agentv1.Tunnelling{LargestBytes: uint32(h.largest())}
	for _, each := range h.order.GetTunnels() {
		t := h.tunnels[each.GetName()]
		report.Ends = append(report.Ends, t.message(h.strangers[t.counter()]))
	}
	missing := h.fitter.Missing()
	for _, port := range h.order.GetFittedPorts() {
		if because := missing[port]; because != nil {
			report.Missing = append(report.Missing, &agentv1.Missing{Port: port, Because: because.Error()})
		}
	}
	return report
}

func (h *Hand) begin(order *agentv1.Tunnels) error {
	if h.host == nil {
		if err := h.take(); err != nil {
			return err
		}
	}
	wanted := map[string]*agentv1.Tunnel{}
	for _, each := range order.GetTunnels() {
		wanted[each.GetName()] = each
	}
	for name, t := range h.tunnels {
		if !proto.Equal(t.order, wanted[name]) {
			delete(h.tunnels, name)
			if err := t.finish(); err != nil {
				h.log.Warn("a tunnel did not end well", "tunnel", name, "because", err)
			}
			if each := wanted[name]; each != nil && !bytes.Equal(t.order.GetKey(), each.GetKey()) {
				if err := h.forget(t.order.GetPort()); err != nil {
					return err
				}
			}
		}
	}
	if err := h.removeAllBut(order.GetTunnels()); err != nil {
		return err
	}
	var begun []*tunnel
	for name, each := range wanted {
		if h.tunnels[name] == nil {
			t, err := begin(each, h.host, h.log)
			if err != nil {
				return err
			}
			h.tunnels[name] = t
			begun = append(begun, t)
		}
	}
	h.order, h.fitted = order, 0
	if err := h.write(); err != nil {
		return err
	}
	for _, t := range begun {
		t.run()
	}
	return nil
}

// forget takes a device of ours away, and with it the address that proved itself by another key than the one that counts now.
func (h *Hand) forget(port string) error {
	found, there, err := find(h.host.kernel.inner, port, 0)
	if err != nil || !there || !h.host.kernel.ours(found) {
		return err
	}
	return h.host.kernel.remove(found)
}

// removeAllBut takes away our devices that are of no tunnel of these, also those that another agent left when it was
// killed.
func (h *Hand) removeAllBut(these []*agentv1.Tunnel) error {
	found, err := devices(h.host.kernel.inner)
	if err != nil {
		return err
	}
	for _, each := range found {
		stays := slices.ContainsFunc(these, func(t *agentv1.Tunnel) bool {
			underlay, _, err := h.host.kernel.leaves(t.GetDevice(), remoteOf(t))
			return err == nil && h.host.kernel.like(each, specOf(t, underlay))
		})
		if h.host.kernel.ours(each) && !stays {
			if err := h.host.kernel.remove(each); err != nil {
				return err
			}
		}
	}
	return nil
}

// write lets in whom the tunnels know just now.
func (h *Hand) write() error {
	var all []pin
	for _, each := range h.order.GetTunnels() {
		t := h.tunnels[each.GetName()]
		one := t.unsettled()
		one.strangers = h.strangers[t.counter()]
		all = append(all, one)
	}
	return h.host.pins.write(all)
}

func (h *Hand) see() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.order != nil {
		h.tend()
	}
}

// tend sees to devices, pins and what senders are told. Under the mutex.
func (h *Hand) tend() {
	counted, err := h.host.pins.dropped()
	ruled, unseen := h.host.pins.ruled()
	if counted != nil {
		h.strangers = counted
	}
	switch {
	case err != nil || unseen != nil:
		h.log.Error("strangers are not counted", "because", errors.Join(err, unseen))
	case counted == nil || ruled != rulesEach*len(h.order.GetTunnels()):
		h.log.Warn("the table " + table + " of nft, or what was in it, has gone and is made again: strangers passed meanwhile")
		if err := h.write(); err != nil {
			h.log.Error("strangers pass", "because", err)
		}
	}
	for _, t := range h.tunnels {
		t.tend()
	}
	largest := h.largest()
	if largest == 0 {
		largest = untilKnown
	}
	if largest != h.fitted {
		h.log.Info("senders are told how long a packet may be", "bytes", largest)
		h.fitter.Fit(h.order.GetFittedPorts(), largest)
		h.fitted = largest
	}
}

// largest goes into every tunnel that is alive; 0: none is, or is known so far.
func (h *Hand) largest() int {
	largest := 0
	for _, t := range h.tunnels {
		if goes := t.goes(); goes != 0 && (largest == 0 || goes < largest) {
			largest = goes
		}
	}
	return largest
}
