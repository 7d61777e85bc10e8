// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	timeToLive = 64
	innerPort  = 890 // UDP: of VXLAN in the WireGuard device; below 1024, so that no user of the host can take it
	noAddress  = 1   // IN6_ADDR_GEN_MODE_NONE
	mark       = "bicast-tunnel "
)

// spec has the parameters of a VXLAN device. The device's alias holds them, where the next agent reads them.
type spec struct {
	name   string
	vni    uint32
	under  int // index of the WireGuard device
	starts bool
}

func (k *kernel) alias(s spec) string {
	role := "answers"
	if s.starts {
		role = "starts"
	}
	return fmt.Sprintf("%s%d in device %d, %s%s", mark, s.vni, s.under, role, k.outsideOf())
}

// device is a network device as the kernel reports it.
type device struct {
	index int
	name  string
	kind  string
	alias string
	mac   string
	mtu   int
	up    bool

	enslaved bool // to Open vSwitch's kernel datapath, or to a Linux bridge
	promisc  bool // set by a userspace bridge, but not by packet captures
}

// outsideOf distinguishes our tunnels from those of an agent in another namespace with its ports in the same one.
func (k *kernel) outsideOf() string { return " of " + k.namespace }

func (k *kernel) ours(d device) bool {
	return d.kind == "vxlan" && strings.HasPrefix(d.alias, mark) && strings.HasSuffix(d.alias, k.outsideOf())
}

// unfinished reports whether the device has no mark yet: the agent was killed while making it.
func (d device) unfinished() bool { return d.kind == "vxlan" && d.alias == "" && !d.up }

// kernel has the namespace of the tunnels' outer packets and that of the ports. They may be the same.
type kernel struct {
	inside    func(func() error) error
	outside   func(func() error) error
	namespace string // the name of that of the outer packets
	outer     *netlink.Conn
	inner     *netlink.Conn
	innerNS   *os.File
}

func openKernel(outside, inside func(func() error) error) (*kernel, error) {
	k := &kernel{inside: inside, outside: outside}
	dial := func(conn **netlink.Conn) func() error {
		return func() (err error) {
			*conn, err = netlink.Dial(unix.NETLINK_ROUTE, nil)
			return err
		}
	}
	const namespace = "/proc/thread-self/ns/net"
	err := errors.Join(outside(dial(&k.outer)), inside(dial(&k.inner)), inside(func() (err error) {
		k.innerNS, err = os.Open(namespace)
		return err
	}), outside(func() (err error) {
		k.namespace, err = os.Readlink(namespace)
		return err
	}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create network devices: %w", err), k.close())
	}
	return k, nil
}

func (k *kernel) close() error {
	var failures []error
	for _, conn := range []*netlink.Conn{k.outer, k.inner} {
		if conn != nil {
			failures = append(failures, conn.Close())
		}
	}
	if k.innerNS != nil {
		failures = append(failures, k.innerNS.Close())
	}
	return errors.Join(failures...)
}

// devices returns all devices of a namespace.
func devices(conn *netlink.Conn) ([]device, error) {
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request | netlink.Dump}, Data: linkHeader(0, 0, 0),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list network devices: %w", err)
	}
	found := make([]device, 0, len(messages))
	for _, message := range messages {
		one, err := decodeDevice(message.Data)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// find returns the device of a name or, if that is empty, of an index; false if none exists.
func find(conn *netlink.Conn, name string, index int) (device, bool, error) {
	found, err := devices(conn)
	for _, each := range found {
		if name != "" && each.name == name || name == "" && each.index == index {
			return each, true, err
		}
	}
	return device{}, false, err
}

func decodeDevice(b []byte) (device, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return device{}, fmt.Errorf("a network device message of %d bytes, expected at least %d", len(b), unix.SizeofIfInfomsg)
	}
	flags := binary.NativeEndian.Uint32(b[8:])
	d := device{
		index: int(binary.NativeEndian.Uint32(b[4:])), up: flags&unix.IFF_UP != 0, promisc: flags&unix.IFF_PROMISC != 0,
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofIfInfomsg:])
	if err != nil {
		return device{}, fmt.Errorf("cannot decode the attributes of a network device: %w", err)
	}
	for attributes.Next() {
		switch attributes.Type() {
		case unix.IFLA_IFNAME:
			d.name = attributes.String()
		case unix.IFLA_IFALIAS:
			d.alias = attributes.String()
		case unix.IFLA_ADDRESS:
			d.mac = net.HardwareAddr(attributes.Bytes()).String()
		case unix.IFLA_MTU:
			d.mtu = int(attributes.Uint32())
		case unix.IFLA_MASTER:
			d.enslaved = attributes.Uint32() != 0
		case unix.IFLA_LINKINFO:
			attributes.Nested(func(info *netlink.AttributeDecoder) error {
				for info.Next() {
					if info.Type() == unix.IFLA_INFO_KIND {
						d.kind = info.String()
					}
				}
				return nil
			})
		}
	}
	if err := attributes.Err(); err != nil {
		return device{}, fmt.Errorf("cannot decode the attributes of a network device: %w", err)
	}
	return d, nil
}

// ensureInner makes the VXLAN device of a tunnel, or takes over that of an earlier agent.
func (k *kernel) ensureInner(s spec, mtu int) (device, error) {
	found, there, err := find(k.inner, s.name, 0)
	if err != nil {
		return device{}, err
	}
	if there && found.alias != k.alias(s) {
		if !k.ours(found) && !found.unfinished() {
			return device{}, fmt.Errorf("another network device has the name %s: remove it (ip link delete %s), "+
				"or give the tunnel's port another name", s.name, s.name)
		}
		if err := k.remove(found); err != nil {
			return device{}, err
		}
		there = false
	}
	if !there {
		return k.make(s, mtu)
	}
	if found.mtu != mtu || !found.up {
		err = setUp(k.inner, found, mtu)
	}
	return found, err
}

// make creates a VXLAN device in the WireGuard device and moves it to the namespace of the ports.
func (k *kernel) make(s spec, mtu int) (device, error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFNAME, s.name)
	attributes.Uint32(unix.IFLA_MTU, uint32(mtu))
	attributes.Uint32(unix.IFLA_NET_NS_FD, uint32(k.innerNS.Fd()))
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "vxlan")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Uint32(unix.IFLA_VXLAN_ID, s.vni)
			data.Uint32(unix.IFLA_VXLAN_LINK, uint32(s.under))
			data.Bytes(unix.IFLA_VXLAN_LOCAL6, insideOf(s.starts).AsSlice())
			data.Bytes(unix.IFLA_VXLAN_GROUP6, insideOf(!s.starts).AsSlice())
			data.Bytes(unix.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, innerPort))
			data.Uint8(unix.IFLA_VXLAN_LEARNING, 0)
			data.Uint8(unix.IFLA_VXLAN_TTL, timeToLive)
			data.Uint8(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, 1) // WireGuard authenticates the packets
			data.Uint8(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, 1)
			return nil
		})
		return nil
	})
	silent := linkHeader(0, unix.IFF_NOARP, unix.IFF_NOARP) // from the start: a bridge that sets its flags writes back all flags that it read
	if err := change(k.outer, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, silent, attributes); err != nil {
		return device{}, fmt.Errorf("cannot create the network device %s: %w", s.name, err)
	}
	made, there, err := find(k.inner, s.name, 0)
	if err != nil || !there {
		return device{}, errors.Join(fmt.Errorf("the network device %s disappeared right after its creation", s.name), err)
	}
	if err := plain(k.inside, made.name, offloads...); err != nil {
		return device{}, errors.Join(err, k.remove(made))
	}
	made.alias, made.up, made.mtu = k.alias(s), true, mtu
	err = k.bringUp(made)
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("UDP port %d is in use by another program on this host (ss -ulpn 'sport = :%d' names it): stop it", innerPort, innerPort)
	}
	return made, err
}

// bringUp sets the alias and brings the device up. The host's own stack sends nothing there.
func (k *kernel) bringUp(d device) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFALIAS, d.alias)
	withoutAddresses(attributes)
	const flags = unix.IFF_UP | unix.IFF_NOARP
	up := linkHeader(d.index, flags, flags) // separately: in one message the kernel would bring it up first, and send
	err := change(k.inner, unix.RTM_SETLINK, 0, linkHeader(d.index, 0, 0), attributes)
	if err == nil {
		err = change(k.inner, unix.RTM_SETLINK, 0, up, netlink.NewAttributeEncoder())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot bring up the network device %s: %w", d.name, err), k.remove(d))
	}
	return nil
}

// withoutAddresses keeps the kernel from giving a device an IPv6 address.
func withoutAddresses(attributes *netlink.AttributeEncoder) {
	attributes.Nested(unix.IFLA_AF_SPEC, func(families *netlink.AttributeEncoder) error {
		families.Nested(unix.AF_INET6, func(six *netlink.AttributeEncoder) error {
			six.Uint8(unix.IFLA_INET6_ADDR_GEN_MODE, noAddress)
			return nil
		})
		return nil
	})
}

func setUp(conn *netlink.Conn, d device, mtu int) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.IFLA_MTU, uint32(mtu))
	if err := change(conn, unix.RTM_SETLINK, 0, linkHeader(d.index, unix.IFF_UP, unix.IFF_UP), attributes); err != nil {
		return fmt.Errorf("cannot set the MTU of the network device %s to %d bytes: %w", d.name, mtu, err)
	}
	return nil
}

// set sets a device up or down.
func (k *kernel) set(d device, up bool) error {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	if err := change(k.inner, unix.RTM_SETLINK, 0, linkHeader(d.index, flags, unix.IFF_UP), netlink.NewAttributeEncoder()); err != nil {
		return fmt.Errorf("cannot set the network device %s: %w", d.name, err)
	}
	return nil
}

func (k *kernel) remove(d device) error { return remove(k.inner, d) }

func remove(conn *netlink.Conn, d device) error {
	err := change(conn, unix.RTM_DELLINK, 0, linkHeader(d.index, 0, 0), netlink.NewAttributeEncoder())
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove the network device %s: %w", d.name, err)
	}
	return nil
}

func change(conn *netlink.Conn, kind uint16, flags netlink.HeaderFlags, header []byte, attributes *netlink.AttributeEncoder) error {
	encoded, err := attributes.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | netlink.Acknowledge | flags},
		Data:   append(header, encoded...),
	})
	return err
}

// linkHeader encodes struct ifinfomsg.
func linkHeader(index int, flags, which uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], which)
	return b
}
