// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"bicast/api/agentv1"
	"bicast/internal/clock"
)

const (
	passingMost = 4096
	atOnce      = 1024
	lingers     = 2 * time.Second // after its end, while what was on its way still comes
	silentMost  = time.Minute     // longer ones are not told of, but stay known
)

// each shows all connections in one of the maps.
func each(of *ebpf.Map, show func(ends, flow)) error {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]ends, atOnce), make([]flow, atOnce)
	for {
		n, err := of.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			show(keys[i], values[i])
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("the connections that pass cannot be read: %w", err)
		}
	}
}

// passing are the connections, and how many are under a cap. Those whose beginning was seen are first, for what a terminal
// makes up has none; and of these and the others, the last ones that were heard of.
func (p *programs) passing() (told []*agentv1.Passing, held int, err error) {
	type one struct {
		ends
		flow
	}
	var all []one
	now := clock.Monotonic()
	for _, known := range []*ebpf.Map{p.objects.Flows, p.objects.Strangers} {
		err = errors.Join(err, each(known, func(e ends, f flow) {
			if !f.over() && f.silent(now) < silentMost {
				all = append(all, one{e, f})
			}
		}))
	}
	for _, each := range all {
		if _, capped := p.caps[each.Pair]; capped && each.HasScale != 0 && now < p.until {
			held++
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.HasScale, a.HasScale), cmp.Compare(b.SeenNS, a.SeenNS))
	})
	for _, each := range all[:min(len(all), passingMost)] {
		told = append(told, each.message(each.ends, now))
	}
	return told, held, err
}

// forget ends what is known of connections that have ended.
func (p *programs) forget() error {
	return errors.Join(forget(p.objects.Flows), forget(p.objects.Strangers))
}

func forget(of *ebpf.Map) error {
	var over []ends
	now := clock.Monotonic()
	failures := []error{each(of, func(e ends, f flow) {
		if f.over() && f.silent(now) > lingers {
			over = append(over, e)
		}
	})}
	for _, each := range over {
		if err := of.Delete(each); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (f flow) over() bool {
	const both = finishedTerminal | finishedOther
	return f.Finished&finishedReset != 0 || f.Finished&both == both
}

func (f flow) silent(now time.Duration) time.Duration { return max(now-time.Duration(f.SeenNS), 0) }

func (f flow) message(e ends, now time.Duration) *agentv1.Passing {
	passing := &agentv1.Passing{
		TerminalAddress: netip.AddrFrom16(e.Pair.Terminal).Unmap().String(), TerminalPort: uint32(binary.BigEndian.Uint16(e.TerminalPort[:])),
		OtherAddress: netip.AddrFrom16(e.Pair.Other).Unmap().String(), OtherPort: uint32(binary.BigEndian.Uint16(e.OtherPort[:])),
		BytesSent: f.AckedBytes, MssBytes: uint32(f.MSSBytes), Joined: f.Joined != 0, HasScale: f.HasScale != 0,
		SinceDataMs: uint32(max(now-time.Duration(f.DataNS), 0).Milliseconds()),
	}
	if f.Far.LeastUS != 0 && f.Near.LeastUS != 0 { // one half alone would be too little
		passing.SrttUs = (f.Far.Lately8US + f.Near.Lately8US) / 8
		passing.MinRttUs = f.Far.LeastUS + f.Near.LeastUS
	}
	return passing
}
