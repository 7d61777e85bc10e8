package serve

import (
	"net/netip"
	"sync"

	"bicast/relay/carry"
)

// How many connections there are of which it is not known whose they are.
const mostStrangers = 256

// crowd is who has not shown yet who he is. Of too many, the oldest one of the host that has most makes place for a newcomer:
// a host alone crowds out itself alone.
type crowd struct {
	mutex     sync.Mutex
	strangers []*stranger // in the order in which they came
	of        map[netip.Prefix]int
	crowded   int
}

type stranger struct {
	host netip.Prefix
	end  *carry.Secure
}

func (c *crowd) enter(from netip.Addr, end *carry.Secure) *stranger {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.of == nil {
		c.of = make(map[netip.Prefix]int)
	}
	newcomer := &stranger{hostOf(from), end}
	c.strangers = append(c.strangers, newcomer)
	c.of[newcomer.host]++
	if len(c.strangers) > mostStrangers {
		most := c.strangers[0]
		for _, each := range c.strangers {
			if c.of[each.host] > c.of[most.host] {
				most = each
			}
		}
		c.remove(most)
		c.crowded++
		most.end.Reset()
	}
	return newcomer
}

// leave is of one who is known, or gone.
func (c *crowd) leave(s *stranger) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.remove(s)
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
