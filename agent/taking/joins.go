package taking

import (
	"net/netip"
	"syscall"

	"bicast/mptcp"
	"bicast/relay/carry"
	"bicast/relay/seldom"
)

// joins makes further subflows of connections to relays.
type joins struct {
	kernel  *mptcp.Handle
	trouble *seldom.Teller
}

// join opens a subflow from each of these that the connection does not begin with. The kernel goes on to call by a path that
// does not answer, for two minutes.
func (j *joins) join(end *carry.Secure, locals []netip.Addr, relay netip.AddrPort) {
	if len(locals) < 2 {
		return
	}
	raw, err := end.NetConn().(syscall.Conn).SyscallConn()
	if err != nil {
		return // it has ended
	}
	connection, err := mptcp.Own(raw)
	if err != nil {
		j.trouble.Warn("the relay is reached by one uplink alone", "relay", relay, "because", err)
		return
	}
	began, _ := netip.ParseAddrPort(end.LocalAddr().String())
	id := uint8(0) // of the first subflow
	for _, local := range locals {
		if local == began.Addr() {
			continue
		}
		id++
		if err := j.kernel.Create(connection, id, local, relay); err != nil {
			j.trouble.Warn("the relay is not reached by this address", "relay", relay, "local", local, "because", err)
		}
	}
}
