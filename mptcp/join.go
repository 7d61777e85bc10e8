// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"cmp"
	"net/netip"
	"slices"
)

// origin is which end opened the connection, as far as the flags of its subflows show.
type origin struct {
	asked     bool // this end opened the connection
	wasAsked  bool // the peer did: the initial subflow is there, and not ours
	askedJoin bool
}

func (o origin) serves() bool { return !o.asked && (o.wasAsked || !o.askedJoin) }

// draft is a connection while its subflows are collected.
type draft struct {
	Connection
	origin  origin
	counted bool // the kernel counts bytes per connection
}

func (d *draft) add(part socket) {
	subflow := part.subflow()
	d.Subflows = append(d.Subflows, subflow)
	d.origin.add(part.flags)
	if !d.counted {
		d.BytesSent += subflow.BytesAcked
		d.BytesReceived += subflow.BytesReceived
	}
}

func (d *draft) finished() Connection {
	slices.SortFunc(d.Subflows, bySubflow)
	d.Serves = d.origin.serves()
	return d.Connection
}

// joinDumps merges the dumps of MPTCP sockets and of TCP sockets into connections. The dumps are not simultaneous: what
// is in one only has just begun or ended, and is left out.
func joinDumps(whole, parts []socket) []Connection {
	drafts := make(map[Token]*draft, len(whole))
	plain := map[Token]bool{0: true}
	for _, one := range whole {
		info := one.connection()
		switch {
		case one.state == stateListen || info.token == 0:
		case info.fallback: // listed among the plain ones
			plain[info.token] = true
		default:
			drafts[info.token] = &draft{counted: info.counts, Connection: Connection{
				Token: info.token, BytesSent: info.bytesAcked, BytesReceived: info.bytesReceived,
				Cookie: one.cookie, Inode: one.inode, Extra: info.extra, ExtraMax: info.extraMax,
			}}
		}
	}
	connections := make([]Connection, 0, len(whole)+len(parts))
	listening := listeners(parts)
	for _, part := range parts {
		whose := drafts[part.token]
		switch {
		case part.state == stateListen:
		case whose != nil && part.carries():
			whose.add(part)
		case whose != nil: // closing
		case plain[part.token]:
			connections = append(connections, plainConnection(part, listening))
		}
	}
	for _, whose := range drafts {
		connections = append(connections, whose.finished())
	}
	slices.SortFunc(connections, byConnection)
	return connections
}

// isIncomplete tells whether the connection of a subflow is missing among those found so far.
func isIncomplete(parts, whole []socket) bool {
	found := map[Token]bool{0: true}
	for _, one := range whole {
		found[one.connection().token] = true
	}
	return slices.ContainsFunc(parts, func(part socket) bool { return !found[part.token] })
}

// tokensOf returns the distinct tokens of the subflows.
func tokensOf(parts []socket) []Token {
	seen := map[Token]bool{0: true}
	var tokens []Token
	for _, part := range parts {
		if !seen[part.token] {
			seen[part.token] = true
			tokens = append(tokens, part.token)
		}
	}
	return tokens
}

// groupByToken builds connections from their subflows alone.
func groupByToken(parts []socket) []Connection {
	drafts := map[Token]*draft{}
	for _, part := range parts {
		if part.token == 0 || !part.carries() {
			continue
		}
		whose := drafts[part.token]
		if whose == nil {
			whose = &draft{counted: true, Connection: Connection{Token: part.token}}
			drafts[part.token] = whose
		}
		whose.add(part)
	}
	connections := make([]Connection, 0, len(drafts))
	for _, whose := range drafts {
		connections = append(connections, whose.finished())
	}
	return connections
}

func plainConnection(part socket, listening listenerSet) Connection {
	subflow := part.subflow()
	return Connection{
		Subflows: []Subflow{subflow}, Cookie: part.cookie, Inode: part.inode,
		BytesSent: subflow.BytesAcked, BytesReceived: subflow.BytesReceived, Serves: listening.on(subflow.Local),
	}
}

func (o *origin) add(flags uint32) {
	o.asked = o.asked || flags&flagCapableLocal != 0
	o.wasAsked = o.wasAsked || flags&(flagCapable|flagCapableLocal) == flagCapable
	o.askedJoin = o.askedJoin || flags&flagJoinLocal != 0
}

type listenerSet map[netip.AddrPort]bool

func listeners(parts []socket) listenerSet {
	found := listenerSet{}
	for _, part := range parts {
		if part.state == stateListen {
			found[plainAddress(part.local)] = true
		}
	}
	return found
}

func (l listenerSet) on(local netip.AddrPort) bool {
	return l[local] || l[netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port())] ||
		l[netip.AddrPortFrom(netip.IPv6Unspecified(), local.Port())]
}

// bySubflow orders by address ids, the initial subflow first, then by addresses and ports.
func bySubflow(a, b Subflow) int {
	return cmp.Or(
		cmp.Compare(a.LocalID, b.LocalID), cmp.Compare(a.RemoteID, b.RemoteID),
		a.Local.Compare(b.Local), a.Remote.Compare(b.Remote),
	)
}

// byConnection puts MPTCP first. Cookies keep the order stable while connections live; new ones may appear anywhere.
func byConnection(a, b Connection) int {
	if (a.Token == 0) != (b.Token == 0) {
		return cmp.Compare(b.Token, a.Token) // the token 0 last
	}
	return cmp.Compare(a.Cookie, b.Cookie)
}
