// SPDX-License-Identifier: Apache-2.0

// Package receivewindow is a gateway's executor for terminals that cannot cap themselves. It lowers the receive window that
// peers announce to them, and measures their connections. The programs are in bpf/receive_window.bpf.c, which describes the
// mechanism.
//
// With tcx (Linux 6.6) the programs end with the agent's process. On older kernels the programs of a killed agent stay attached
// without effect after their lease, until the next agent replaces them.
package receivewindow

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"bicast/api/agentv1"
	"bicast/internal/clock"
)

//go:embed receive_window.bpf.o
var object []byte

const needed = "tc programs, Linux 5.17, CAP_BPF and CAP_NET_ADMIN"

// The contents of the maps, as in bpf/receive_window.h.
type pair struct {
	Terminal, Other [16]byte
}

type ends struct {
	Pair                    pair    // not embedded, so that encoding/binary does not use reflection on each field
	TerminalPort, OtherPort [2]byte // in network byte order
}

type half struct {
	LeastUS, Lately8US uint32
}

type flow struct {
	SeenNS, DataNS, AckedBytes    uint64
	AllowedBytes, AllowedNS       uint64
	FarNS, NearNS, GreetedNS      uint64
	Far, Near                     half
	Acked, Sent                   uint32
	FarEnd, NearValue, NearLatest uint32
	Edge                          uint32
	SegmentBytes, MSSBytes        uint16
	Scale, HasScale               uint8
	MPTCP, Joined                 uint8
	HasAcked, HasSent, HasEdge    uint8
	HasLatest, NearBusy, Finished uint8
	_                             [2]byte
}

const (
	finishedTerminal = 1 << iota
	finishedOther
	finishedReset
)

// programs are the two programs and their maps.
type programs struct {
	objects struct {
		Lower     *ebpf.Program `ebpf:"bicast_lower"`
		Watch     *ebpf.Program `ebpf:"bicast_watch"`
		Settings  *ebpf.Map     `ebpf:"settings"`
		Caps      *ebpf.Map     `ebpf:"caps"`
		Flows     *ebpf.Map     `ebpf:"flows"`
		Strangers *ebpf.Map     `ebpf:"strangers"`
		Openings  *ebpf.Map     `ebpf:"openings"`
	}
	caps  map[pair]uint32 // contents of the map
	until time.Duration   // end of the lease, by clock.Monotonic
	held  bool            // whether there was ever a cap
}

func load() (*programs, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the programs that lower windows: %w", err)
	}
	p := &programs{caps: map[pair]uint32{}}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not load the programs that lower windows (they need %s): %w", needed, err)
	}
	return p, nil
}

// Probe returns the reason why this kernel cannot lower windows, or nil.
func Probe() error {
	programs, err := load()
	if err != nil {
		return err
	}
	return programs.close()
}

// hold replaces the caps and renews their lease.
func (p *programs) hold(caps map[pair]uint32, lease time.Duration) error {
	var failures []error
	for each := range p.caps {
		if _, still := caps[each]; !still {
			failures = append(failures, p.objects.Caps.Delete(each))
			delete(p.caps, each)
		}
	}
	for each, segments := range caps {
		if known, there := p.caps[each]; there && known == segments {
			continue
		}
		failures = append(failures, p.objects.Caps.Put(each, segments))
		p.caps[each] = segments
	}
	p.until = clock.Monotonic() + lease
	p.held = p.held || len(caps) > 0
	failures = append(failures, p.objects.Settings.Put(uint32(0), uint64(p.until)))
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("cannot write the caps to the programs that lower windows: %w", err)
	}
	return nil
}

// holds reports whether a window may still be lower than the receiver's own.
func (p *programs) holds() bool {
	return p.held && clock.Monotonic() < p.until+liftDuration
}

func (p *programs) close() error {
	return errors.Join(p.objects.Lower.Close(), p.objects.Watch.Close(), p.objects.Settings.Close(), p.objects.Caps.Close(),
		p.objects.Flows.Close(), p.objects.Strangers.Close(), p.objects.Openings.Close())
}

func capsOf(order *agentv1.Caps) (map[pair]uint32, error) {
	caps := map[pair]uint32{}
	for _, each := range order.GetCaps() {
		between, err := pairOf(each)
		if err != nil {
			return nil, err
		}
		if _, twice := caps[between]; twice {
			return nil, fmt.Errorf("two caps between %s and %s, expected one for all their connections", each.GetTerminalAddress(), each.GetOtherAddress())
		}
		caps[between] = each.GetMostSegments()
	}
	return caps, nil
}

func pairOf(each *agentv1.Cap) (pair, error) {
	terminal, err := netip.ParseAddr(each.GetTerminalAddress())
	if err != nil {
		return pair{}, fmt.Errorf("a cap for the terminal %q, expected an IP address", each.GetTerminalAddress())
	}
	other, err := netip.ParseAddr(each.GetOtherAddress())
	if err != nil {
		return pair{}, fmt.Errorf("a cap towards %q, expected an IP address", each.GetOtherAddress())
	}
	terminal, other = terminal.Unmap(), other.Unmap()
	if terminal.Is4() != other.Is4() || terminal.Zone() != "" || other.Zone() != "" {
		return pair{}, fmt.Errorf("a cap between %v and %v, expected addresses of the same IP version without zones", terminal, other)
	}
	return pair{terminal.As16(), other.As16()}, nil
}
