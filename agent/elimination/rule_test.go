// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// A second implementation of the rule of bpf/eliminate.bpf.c, written from its description:
//
// A packet is dropped only if another path delivered it within the window and this path has not yet. The room is limited.
// A new packet evicts the oldest that all paths have delivered, or else the oldest.
type rule struct {
	window time.Duration
	room   int
	paths  int
	known  map[string]*known
	now    time.Duration
	ticks  int // count of arrivals, which orders those at the same time
}

type known struct {
	at      time.Duration
	tick    int
	brought map[int]bool
}

func newRule(window time.Duration, room, paths int) *rule {
	return &rule{window: window, room: room, paths: paths, known: map[string]*known{}}
}

func (r *rule) comes(path int, frame []byte) (verdict uint32) {
	r.ticks++
	name, ok := identity(frame)
	if !ok {
		return passed
	}
	before := r.known[name]
	if before != nil && r.now-before.at <= r.window && !before.brought[path] {
		before.brought[path] = true
		return dropped
	}
	if before == nil && len(r.known) == r.room {
		r.forget()
	}
	r.known[name] = &known{r.now, r.ticks, map[int]bool{path: true}}
	return passed
}

func (r *rule) forget() {
	least := ""
	for name, one := range r.known {
		if least == "" || r.before(one, r.known[least]) {
			least = name
		}
	}
	delete(r.known, least)
}

func (r *rule) before(one, other *known) bool {
	if all := len(one.brought) == r.paths; all != (len(other.brought) == r.paths) {
		return all
	}
	return one.tick < other.tick
}

// identity returns what the copies of a packet share with no other packet. It returns false for a packet without identity,
// or one that the site does not forward: the program does not record it.
func identity(frame []byte) (name string, ok bool) {
	if len(frame) < 14 || !bytes.Equal(frame[:6], own.Bytes[:]) {
		return "", false
	}
	var tags []uint16
	kind, packet := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	for len(tags) < 2 && (kind == 0x8100 || kind == 0x88a8) {
		if len(packet) < 4 {
			return "", false
		}
		tags = append(tags, binary.BigEndian.Uint16(packet)&0x0fff)
		kind, packet = binary.BigEndian.Uint16(packet[2:]), packet[4:]
	}
	switch {
	case kind == 0x0800 && len(packet) >= 20 && packet[0] == 0x45:
		long := int(binary.BigEndian.Uint16(packet[2:]))
		if long < 20 || long > 2048 || long > len(packet) || sum(packet[:20]) != 0 || packet[8] <= 2 {
			return "", false
		}
		same := slices.Clone(packet[:long])
		same[1], same[8], same[10], same[11] = 0, 0, 0, 0 // DSCP with ECN, TTL, checksum
		same[6] &= 0xbf                                   // DF
		return fmt.Sprintf("%v %s", tags, same), true
	case kind == 0x86dd && len(packet) >= 40 && packet[0]>>4 == 6:
		long := int(binary.BigEndian.Uint16(packet[4:]))
		if long == 0 || long > 2048 || long > len(packet)-40 || packet[7] <= 2 {
			return "", false
		}
		same := slices.Clone(packet[:40+long])
		same[0], same[1], same[7] = 0x60, same[1]&0x0f, 0 // traffic class, hop limit
		return fmt.Sprintf("%v %s", tags, same), true
	}
	return "", false
}
