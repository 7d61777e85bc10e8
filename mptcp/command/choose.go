// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"bicast/mptcp"
)

// ownedConnection is a connection and, on request, its processes.
type ownedConnection struct {
	mptcp.Connection
	holders []mptcp.Process
}

// connections reads all MPTCP connections. Finding the processes is slow, so a switch leaves it out.
func (s *session) connections(withProcesses bool) ([]ownedConnection, error) {
	read, err := s.handle.Connections()
	if err != nil {
		return nil, err
	}
	var holders map[uint64][]mptcp.Process
	if withProcesses {
		if holders, err = mptcp.Processes(); err != nil {
			return nil, err
		}
	}
	var all []ownedConnection
	for _, c := range read {
		if c.Token != 0 {
			all = append(all, ownedConnection{c, holders[c.Inode]})
		}
	}
	return all, nil
}

// filterByProcess applies --pid and --name.
func (s *session) filterByProcess(all []ownedConnection) []ownedConnection {
	return slices.DeleteFunc(all, func(c ownedConnection) bool {
		return !slices.ContainsFunc(c.holders, func(p mptcp.Process) bool {
			return (s.pid == 0 || p.PID == s.pid) && (s.process == "" || p.Name == s.process)
		})
	})
}

// selected returns the connections of --pid and --name. A missing process is an error: the number may be mistyped, or
// the process has ended.
func (s *session) selected(withProcesses bool) ([]ownedConnection, error) {
	byProcess := s.pid != 0 || s.process != ""
	all, err := s.connections(withProcesses || byProcess)
	if err != nil {
		return nil, err
	}
	if s.pid != 0 {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", s.pid)); errors.Is(err, fs.ErrNotExist) {
			return nil, &mptcp.Error{
				Kind: mptcp.Gone, What: fmt.Sprintf("there is no process %d", s.pid),
				Advice: "`bicast mptcp list` shows the connections with their processes",
			}
		}
	}
	if byProcess {
		all = s.filterByProcess(all)
	}
	return all, nil
}

// emptyText is the text for an empty selection.
func (s *session) emptyText() string {
	const nothing = "no MPTCP connections in this network namespace"
	switch {
	case s.pid == 0 && s.process == "":
		return nothing
	case s.pid == 0:
		return fmt.Sprintf("processes called %s have %s", s.process, nothing)
	case s.process == "":
		return fmt.Sprintf("process %d has %s", s.pid, nothing)
	default:
		return fmt.Sprintf("process %d, called %s, has %s", s.pid, s.process, nothing)
	}
}

// connection returns the connection with a token.
func (s *session) connection(word string) (ownedConnection, error) {
	all, err := s.connections(false)
	if err != nil {
		return ownedConnection{}, err
	}
	digits := strings.TrimPrefix(strings.ToLower(word), "0x")
	token, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 8 {
		return ownedConnection{}, s.usageError("%q is no connection: expected its token, 8 hex digits, as `list` shows it", word)
	}
	for _, c := range all {
		if uint64(c.Token) == token {
			return c, nil
		}
	}
	return ownedConnection{}, &mptcp.Error{
		Kind: mptcp.Gone, What: "there is no MPTCP connection " + word, Advice: "`bicast mptcp list` shows what there is",
	}
}

// path selects subflows: by an address of either end, with its port or without, or by an interface of ours.
type path struct {
	word      string
	addresses []netip.Addr
	end       netip.AddrPort // if a port was given
}

func (s *session) path(word string) (path, error) {
	if address, err := netip.ParseAddr(word); err == nil {
		return path{word: word, addresses: []netip.Addr{address.Unmap()}}, nil
	}
	if end, err := netip.ParseAddrPort(word); err == nil {
		return path{word: word, end: netip.AddrPortFrom(end.Addr().Unmap(), end.Port())}, nil
	}
	found := path{word: word}
	err := s.handle.Do(func() error {
		device, err := net.InterfaceByName(word)
		if err != nil {
			return s.usageError("%q is no path: expected an address of either end, or an interface of ours", word)
		}
		addresses, err := device.Addrs()
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				found.addresses = append(found.addresses, prefix.Addr())
			}
		}
		return err
	})
	return found, err
}

func (p path) carries(s mptcp.Subflow) bool {
	if p.end.IsValid() {
		return s.Local == p.end || s.Remote == p.end
	}
	return slices.Contains(p.addresses, s.Local.Addr()) || slices.Contains(p.addresses, s.Remote.Addr())
}

// split separates the subflows of a path from the others.
func (p path) split(c mptcp.Connection) (by, others []mptcp.Subflow) {
	for _, s := range c.Subflows {
		if p.carries(s) {
			by = append(by, s)
		} else {
			others = append(others, s)
		}
	}
	return by, others
}

// ambiguous explains that a word matches several paths although one is required.
func (p path) ambiguous(c mptcp.Connection, several []mptcp.Subflow) string {
	ours, theirs := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	names := make([]string, len(several))
	for i, s := range several {
		names[i] = s.String()
		ours[s.Local.Addr()], theirs[s.Remote.Addr()] = true, true
	}
	by := "ADDRESS:PORT, as list shows it"
	switch len(several) {
	case len(ours):
		by = "our address or interface"
	case len(theirs):
		by = "the other end's address"
	}
	return fmt.Sprintf("%s matches %d paths of connection %v (%s): name one by %s", p.word, len(several), c.Token,
		strings.Join(names, ", "), by)
}

func (p path) missing(c mptcp.Connection) error {
	has := make([]string, 0, len(c.Subflows))
	for _, s := range c.Subflows {
		has = append(has, s.String())
	}
	return &mptcp.Error{
		Kind: mptcp.NoPath, What: c.String() + " has no subflow by " + p.word + ", only " + strings.Join(has, ", "),
		Advice: "`add` opens one",
	}
}
