// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strconv"
	"strings"
)

// Ports is a list of port ranges.
type Ports []Span

// Span is an inclusive range of ports.
type Span struct{ First, Last uint16 }

// ParsePorts parses a list such as 80,443,8000-8099.
func ParsePorts(text string) (Ports, error) {
	var ports Ports
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			last = first
		}
		from, wrong := strconv.ParseUint(first, 10, 16)
		to, alsoWrong := strconv.ParseUint(last, 10, 16)
		if wrong != nil || alsoWrong != nil || from == 0 || to < from {
			return nil, fmt.Errorf("%q is no list of ports: expected such as 80,443,8000-8099", text)
		}
		ports = append(ports, Span{uint16(from), uint16(to)})
	}
	return ports, nil
}

// Have tells whether a port is in the list.
func (p Ports) Have(port uint16) bool {
	for _, each := range p {
		if each.First <= port && port <= each.Last {
			return true
		}
	}
	return false
}

func (p Ports) String() string {
	var parts []string
	for _, each := range p {
		part := strconv.Itoa(int(each.First))
		if each.Last != each.First {
			part += "-" + strconv.Itoa(int(each.Last))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
