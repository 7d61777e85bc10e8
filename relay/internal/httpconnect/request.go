// SPDX-License-Identifier: Apache-2.0

// Package httpconnect encodes and decodes the protocol between gateway and relay: one HTTP/1.1 CONNECT (RFC 9110,
// section 9.3.6) and one answer per connection, then the tunnel's data. After a refusal a connection is never read for
// another request: a gateway sends data of the terminal before the answer, which could look like one.
package httpconnect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// HeaderBytes limits a request or an answer, with the data that came with it.
const HeaderBytes = 4096

const nameBytes = 253 // RFC 1035, section 2.3.4, in text form

// Target is the requested destination: an address or a name.
type Target struct {
	Address netip.Addr // invalid: use Name
	Name    string
	Port    uint16
	For     netip.AddrPort // source of the forwarded connection (RFC 7239, section 5.2); invalid: not given
}

// Of returns the target for an address.
func Of(to netip.AddrPort) Target { return Target{Address: to.Addr(), Port: to.Port()} }

func (t Target) String() string {
	host := t.Name
	if t.Address.IsValid() {
		host = t.Address.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.Port)))
}

// Request encodes the request for a target.
func (t Target) Request() []byte {
	header := fmt.Appendf(nil, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", t, t)
	if t.For.IsValid() {
		header = fmt.Appendf(header, "Forwarded: for=\"%s\"\r\n", unmapped(t.For))
	}
	return append(header, "\r\n"...)
}

func unmapped(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

var headerEnd = []byte("\r\n\r\n")

// ErrLong means that a header is too long.
var ErrLong = fmt.Errorf("no header that ends within %d bytes", HeaderBytes)

// Header reads up to the end of a header; behind is the data after it. The buffer has HeaderBytes.
func Header(from io.Reader, buffer []byte, began func()) (header, behind []byte, err error) {
	for n := 0; n < len(buffer); {
		more, err := from.Read(buffer[n:])
		if n == 0 && more > 0 && began != nil {
			began()
		}
		from := max(0, n-len(headerEnd)+1)
		n += more
		if at := bytes.Index(buffer[from:n], headerEnd); at >= 0 {
			end := from + at
			return buffer[:end], buffer[end+len(headerEnd) : n], nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ErrLong
}

// Parse parses a request's header. It accepts what RFC 9112 allows a client to send, and nothing that another parser
// could interpret differently.
func Parse(header []byte) (Target, error) {
	lines := strings.Split(string(header), "\r\n")
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || words[0] != "CONNECT" || words[2] != "HTTP/1.1" {
		return Target{}, errors.New("expected CONNECT HOST:PORT HTTP/1.1: this is a relay, not a web server")
	}
	hosts := 0
	var source netip.AddrPort
	for _, line := range lines[1:] {
		name, value, found := strings.Cut(line, ":")
		if !found || !token(name) || !plain(value) {
			return Target{}, errors.New("a header line is not valid HTTP")
		}
		switch strings.ToLower(name) {
		case "host":
			hosts++
		case "forwarded":
			source = forwardedFor(value)
		case "content-length", "transfer-encoding":
			return Target{}, fmt.Errorf("a CONNECT has no content: unexpected %s", name)
		}
	}
	if hosts != 1 {
		return Target{}, fmt.Errorf("expected one Host header, got %d", hosts)
	}
	target, err := parseTarget(words[1])
	target.For = source
	return target, err
}

// forwardedFor parses what a gateway sends; the rest of RFC 7239 is ignored.
func forwardedFor(value string) (source netip.AddrPort) {
	quoted, found := strings.CutPrefix(strings.TrimSpace(value), `for="`)
	text, closed := strings.CutSuffix(quoted, `"`)
	if read, err := netip.ParseAddrPort(text); found && closed && err == nil && read.Addr().Zone() == "" {
		source = unmapped(read)
	}
	return source
}

func parseTarget(text string) (Target, error) {
	wrong := func() (Target, error) {
		return Target{}, errors.New("expected CONNECT HOST:PORT with a name, an IPv4 address, or an IPv6 address in brackets")
	}
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return wrong()
	}
	host, digits := text[:colon], text[colon+1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || digits[0] == '0' || digits[0] == '+' {
		return wrong()
	}
	target := Target{Port: uint16(port)}
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		inside, closed := strings.CutSuffix(inside, "]")
		target.Address, err = netip.ParseAddr(inside)
		if !closed || err != nil || target.Address.Is4() || target.Address.Zone() != "" {
			return wrong()
		}
		return target, nil
	}
	if target.Address, err = netip.ParseAddr(host); err == nil && target.Address.Is4() {
		return target, nil
	}
	if !isName(host) {
		return wrong()
	}
	return Target{Name: host, Port: target.Port}, nil
}

// isName tells whether a text is a host name (RFC 1123, section 2.1). Some resolvers take a numeric last label for an
// address.
func isName(text string) bool {
	text = strings.TrimSuffix(text, ".")
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !alphanumeric(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return len(text) <= nameBytes && (last[0] < '0' || last[0] > '9')
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// token is defined in RFC 9110, section 5.6.2.
func token(text string) bool {
	for i := range len(text) {
		if !alphanumeric(text[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(text[i])) {
			return false
		}
	}
	return text != ""
}

// plain tells whether a value has no control characters, bare CR and LF included.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
