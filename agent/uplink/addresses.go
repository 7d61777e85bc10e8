// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"bicast/internal/regularfile"
)

const (
	mostAddresses = 4 // of a name's answer, and of the proven ones
	provenBytes   = 4 << 10
	// resolvedWithin is how long a name's answer is awaited if the host was found before.
	resolvedWithin = 500 * time.Millisecond
)

// Proven is the path of a file with the addresses at which a host was found, newest first. It may be empty.
type Proven string

// provenJSON is the format of the file.
type provenJSON struct {
	Host      string       `json:"host"`
	Addresses []netip.Addr `json:"addresses"`
}

// of returns the host's addresses. An unreadable file counts as an empty one.
func (p Proven) of(host string) []netip.Addr {
	if p == "" {
		return nil
	}
	text, _, err := regularfile.Read(string(p), provenBytes)
	var found provenJSON
	if err != nil || json.Unmarshal(text, &found) != nil || found.Host != host {
		return nil
	}
	return found.Addresses[:min(len(found.Addresses), mostAddresses)]
}

// add makes an address the newest one. The host was found, so a failure is no reason to leave it.
func (p Proven) add(host string, address netip.Addr) {
	before := p.of(host)
	if p == "" || host == address.String() || len(before) > 0 && before[0] == address {
		return
	}
	now := []netip.Addr{address}
	for _, each := range before {
		if each != address && len(now) < mostAddresses {
			now = append(now, each)
		}
	}
	text, err := json.Marshal(provenJSON{host, now})
	written := string(p) + ".new"
	if err == nil && os.WriteFile(written, text, 0o600) == nil {
		os.Rename(written, string(p))
	}
}

// addresses returns the host's addresses: each answer of the resolver, followed by a proven one.
func (d Dialer) addresses(ctx context.Context, host string, uplinks []net.Interface) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap()}, nil
	}
	proven := d.Proven.of(host)
	if len(proven) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, resolvedWithin)
		defer cancel()
	}
	answer, err := resolve(ctx, host, uplinks)
	if err != nil && len(proven) == 0 {
		return nil, err
	}
	var found []netip.Addr
	for i := range mostAddresses {
		for _, from := range [][]netip.Addr{answer, proven} {
			if i < len(from) && !slices.Contains(found, from[i]) {
				found = append(found, from[i])
			}
		}
	}
	return found, nil
}

// resolve asks the name servers over all uplinks and returns the first answer.
func resolve(ctx context.Context, host string, uplinks []net.Interface) ([]netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addresses []netip.Addr
		err       error
	}
	ways := []way{{}}
	for _, each := range uplinks {
		ways = append(ways, way{device: each.Name})
	}
	answers := make(chan answer, len(ways))
	for _, each := range ways {
		go func() {
			addresses, err := each.resolver().LookupNetIP(ctx, "ip", host)
			for i := range addresses {
				addresses[i] = addresses[i].Unmap()
			}
			answers <- answer{addresses, each.named(err)}
		}()
	}
	var failure error
	for range ways {
		one := <-answers
		if one.err == nil {
			return one.addresses, nil
		}
		if failure == nil {
			failure = one.err
		}
	}
	return nil, failure
}

// resolver asks over the uplink, except a name server on this machine.
func (w way) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := net.Dialer{}
		if server, err := netip.ParseAddrPort(address); err == nil && !server.Addr().IsLoopback() {
			dialer.Control = w.bind
		}
		return dialer.DialContext(ctx, network, address)
	}}
}
