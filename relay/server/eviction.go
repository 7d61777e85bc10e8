// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"sync"
)

const (
	mostStrangers = 256 // connections of which it is not known whose they are
	mostFamiliar  = 256 // hosts of which it is remembered that guests come from there
)

// crowd is who has not shown yet who he is. Of too many, the oldest one of the host that has most makes place for a newcomer:
// a host alone crowds out itself alone. And many hosts crowd out none from which a guest came before.
type crowd struct {
	mutex     sync.Mutex
	strangers []*stranger // in the order in which they came
	of        map[netip.Prefix]int
	familiar  []netip.Prefix // the latest last
}

type stranger struct {
	host     netip.Prefix
	familiar bool
	end      interface{ Reset() }
}

func (c *crowd) enter(from netip.Addr, end interface{ Reset() }) *stranger {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.of == nil {
		c.of = make(map[netip.Prefix]int)
	}
	host := hostOf(from)
	newcomer := &stranger{host, slices.Contains(c.familiar, host), end}
	c.strangers = append(c.strangers, newcomer)
	c.of[newcomer.host]++
	if len(c.strangers) > mostStrangers {
		least := slices.MinFunc(c.strangers, func(a, b *stranger) int {
			switch {
			case a.familiar == b.familiar:
				return c.of[b.host] - c.of[a.host]
			case b.familiar:
				return -1
			default:
				return 1
			}
		})
		c.remove(least)
		least.end.Reset()
	}
	return newcomer
}

// leave is of one who is a guest, or gone.
func (c *crowd) leave(s *stranger, guest bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.remove(s)
	if !guest {
		return
	}
	if at := slices.Index(c.familiar, s.host); at >= 0 {
		c.familiar = slices.Delete(c.familiar, at, at+1)
	} else if len(c.familiar) == mostFamiliar {
		c.familiar = slices.Delete(c.familiar, 0, 1)
	}
	c.familiar = append(c.familiar, s.host)
}

func (c *crowd) remove(s *stranger) {
	for i, each := range c.strangers {
		if each == s {
			c.strangers = append(c.strangers[:i], c.strangers[i+1:]...)
			if c.of[s.host]--; c.of[s.host] == 0 {
				delete(c.of, s.host)
			}
			return
		}
	}
}

// hostOf takes the addresses that one host of IPv6 may choose among for one.
func hostOf(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.WithZone("").Prefix(bits)
	return prefix
}
