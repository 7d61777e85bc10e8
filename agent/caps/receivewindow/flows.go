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
	maxPassing = 4096
	batchSize  = 1024
	lingerTime = 2 * time.Second // after a connection's end, for packets still in flight
	maxSilence = time.Minute     // longer silent connections stay in the maps but are not reported
)

// each calls show for all connections in a map.
func each(of *ebpf.Map, show func(ends, flow)) error {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]ends, batchSize), make([]flow, batchSize)
	for {
		n, err := of.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			show(keys[i], values[i])
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("cannot read the measured connections: %w", err)
		}
	}
}

// passing returns the measured connections and the number under a cap. Connections whose handshake was seen come
// first, because packets forged by a terminal have none. Within both groups, the most recently active come first.
func (p *programs) passing() (told []*agentv1.Passing, held int, err error) {
	type one struct {
		ends
		flow
	}
	var all []one
	now := clock.Monotonic()
	for _, known := range []*ebpf.Map{p.objects.Flows, p.objects.Strangers} {
		err = errors.Join(err, each(known, func(e ends, f flow) {
			if !f.over() && f.silent(now) < maxSilence {
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
	for _, each := range all[:min(len(all), maxPassing)] {
		told = append(told, each.message(each.ends, now))
	}
	return told, held, err
}

// forget removes closed connections.
func (p *programs) forget() error {
	return errors.Join(forget(p.objects.Flows), forget(p.objects.Strangers))
}

func forget(of *ebpf.Map) error {
	var over []ends
	now := clock.Monotonic()
	failures := []error{each(of, func(e ends, f flow) {
		if f.over() && f.silent(now) > lingerTime {
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
	if f.Far.LeastUS != 0 && f.Near.LeastUS != 0 { // one half alone underestimates the round trip
		passing.SrttUs = (f.Far.Lately8US + f.Near.Lately8US) / 8
		passing.MinRttUs = f.Far.LeastUS + f.Near.LeastUS
	}
	return passing
}
