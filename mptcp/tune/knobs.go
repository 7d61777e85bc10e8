// SPDX-License-Identifier: Apache-2.0

package tune

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

const (
	sysctlPrefix   = "net.mptcp."
	limitSubflows  = "limit of subflows beside the first"
	limitAddresses = "limit of announced addresses taken up"
	endpointPrefix = "endpoint "
)

type sysctl struct {
	h    *mptcp.Handle
	leaf string
}

func (s sysctl) name() string { return sysctlPrefix + s.leaf }
func (s sysctl) path() string { return "/proc/sys/net/mptcp/" + s.leaf }

func (s sysctl) read() (string, error) {
	var text []byte
	err := s.h.Do(func() (err error) {
		text, err = os.ReadFile(s.path())
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, nil
	}
	return strings.TrimSpace(string(text)), err
}

func (s sysctl) write(value string) error {
	return s.h.Do(func() error { return os.WriteFile(s.path(), []byte(value), 0) })
}

type limit struct {
	h     *mptcp.Handle
	which string
}

func (l limit) name() string { return l.which }

func (l limit) of(limits *mptcp.Limits) *int {
	if l.which == limitSubflows {
		return &limits.Extra
	}
	return &limits.Announced
}

func (l limit) read() (string, error) {
	limits, err := l.h.Limits()
	return strconv.Itoa(*l.of(&limits)), err
}

func (l limit) write(value string) error {
	limits, err := l.h.Limits()
	if err != nil {
		return err
	}
	if *l.of(&limits), err = strconv.Atoi(value); err != nil {
		return err
	}
	return l.h.SetLimits(limits)
}

// endpoint is an address of ours in the kernel's path manager; its value is its flags.
type endpoint struct {
	h       *mptcp.Handle
	address string
	device  int32 // ifindex, so that its packets leave there
}

func endpointNamed(h *mptcp.Handle, address string) endpoint { return endpoint{h: h, address: address} }

func (e endpoint) name() string { return endpointPrefix + e.address }

func (e endpoint) find() (mptcp.Endpoint, bool, error) {
	known, err := e.h.Endpoints()
	i := slices.IndexFunc(known, func(k mptcp.Endpoint) bool {
		return k.Address.String() == e.address && k.Flags&mptcp.Implicit == 0
	})
	if i < 0 {
		return mptcp.Endpoint{}, false, err
	}
	return known[i], true, err
}

func (e endpoint) read() (string, error) {
	known, is, err := e.find()
	if err != nil || !is {
		return Absent, err
	}
	return flagWords(known.Flags), nil
}

func (e endpoint) write(value string) error {
	if value == Absent {
		known, is, err := e.find()
		if err != nil || !is {
			return err
		}
		return e.h.DeleteEndpoint(known)
	}
	address, err := netip.ParseAddr(e.address)
	if err != nil {
		return err
	}
	flags := mptcp.Initiate
	if value == flagWords(mptcp.Initiate|mptcp.Backup) {
		flags |= mptcp.Backup
	}
	return e.h.AddEndpoint(mptcp.Endpoint{Address: address, Flags: flags, Interface: e.device})
}

// flagWords returns the flags as `ip mptcp endpoint` names them.
func flagWords(flags mptcp.EndpointFlags) string {
	var words []string
	for _, named := range []struct {
		flag mptcp.EndpointFlags
		word string
	}{
		{mptcp.Signal, "signal"}, {mptcp.Initiate, "subflow"}, {mptcp.Backup, "backup"}, {mptcp.FullMesh, "fullmesh"},
		{mptcp.Implicit, "implicit"},
	} {
		if flags&named.flag != 0 {
			words = append(words, named.word)
		}
	}
	if len(words) == 0 {
		return "no flags"
	}
	return strings.Join(words, " ")
}

// endpointTargets returns an endpoint for each reachable address.
func endpointTargets(h *mptcp.Handle, only, backup []string) ([]target, error) {
	var found []target
	err := h.Do(func() error {
		interfaces, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, name := range append(slices.Clone(only), backup...) {
			if !slices.ContainsFunc(interfaces, func(i net.Interface) bool { return i.Name == name }) {
				return fmt.Errorf("there is no interface %s in this namespace: `ip link` lists them", name)
			}
		}
		for _, device := range interfaces {
			chosen := len(only) == 0 || slices.Contains(only, device.Name)
			if device.Flags&net.FlagUp == 0 || device.Flags&net.FlagLoopback != 0 || !chosen {
				continue
			}
			addresses, err := device.Addrs()
			if err != nil {
				return err
			}
			for _, address := range addresses {
				prefix, err := netip.ParsePrefix(address.String())
				if err != nil || !prefix.Addr().IsGlobalUnicast() {
					continue
				}
				value := flagWords(mptcp.Initiate)
				if slices.Contains(backup, device.Name) {
					value = flagWords(mptcp.Initiate | mptcp.Backup)
				}
				found = append(found, target{endpoint{h, prefix.Addr().String(), int32(device.Index)}, value})
			}
		}
		return nil
	})
	return found, err
}
