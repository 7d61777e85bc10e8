// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	timeToLive   = 64
	dontFragment = 1 // VXLAN_DF_SET, linux/if_link.h
	noAddress    = 1 // IN6_ADDR_GEN_MODE_NONE
	mark         = "bicast-tunnel "
	overSix      = " over IPv6"
)

// spec has the parameters of a device. The device's alias holds them, where the next agent reads them.
type spec struct {
	name     string
	vni      uint32
	udpPort  uint16
	underlay int // index of the underlay's device; 0: routes decide
	six      bool
	remote   netip.Addr // the other end, if the order names it
}

func (k *kernel) alias(s spec) string {
	text := fmt.Sprintf("%s%d by UDP %d, device %d%s", mark, s.vni, s.udpPort, s.underlay, k.outsideOf())
	if s.remote.IsValid() {
		text = fmt.Sprintf("%s%d by UDP %d to %v, device %d%s", mark, s.vni, s.udpPort, s.remote, s.underlay, k.outsideOf())
	}
	if s.six {
		text += overSix
	}
	return text
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

	underlay int // of a tunnel's device: as in spec
}

// outsideOf distinguishes our tunnels from those of an agent in another namespace with its ports in the same one.
func (k *kernel) outsideOf() string { return " of " + k.outside }

func (k *kernel) ours(d device) bool {
	return d.kind == "vxlan" && strings.HasPrefix(d.alias, mark) &&
		strings.HasSuffix(strings.TrimSuffix(d.alias, overSix), k.outsideOf())
}

// matches reports whether the device is that of a spec, over either IP version.
func (k *kernel) matches(d device, s spec) bool {
	s.six = false
	return k.ours(d) && d.name == s.name && strings.TrimSuffix(d.alias, overSix) == k.alias(s)
}

func (d device) six() bool { return strings.HasSuffix(d.alias, overSix) }

// unfinished reports whether the device has no mark yet: the agent was killed while making it.
func (d device) unfinished() bool { return d.kind == "vxlan" && d.alias == "" && !d.up }

// kernel has the namespace of the tunnels' outer packets and that of the ports. They may be the same.
type kernel struct {
	inside  func(func() error) error
	outside string // the name of that namespace
	outer   *netlink.Conn
	inner   *netlink.Conn
	innerNS *os.File
	sockets int // number of our packet sockets on a device
}

func openKernel(outside, inside func(func() error) error) (*kernel, error) {
	k := &kernel{inside: inside, sockets: 1}
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
		k.outside, err = os.Readlink(namespace)
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

// make creates a device with its outer packets in our namespace and itself in that of the ports, and sets it up.
func (k *kernel) make(s spec, mtu int) (device, error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFNAME, s.name)
	attributes.Uint32(unix.IFLA_MTU, uint32(mtu))
	attributes.Uint32(unix.IFLA_NET_NS_FD, uint32(k.innerNS.Fd()))
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "vxlan")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Uint32(unix.IFLA_VXLAN_ID, s.vni)
			data.Bytes(unix.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, s.udpPort))
			// One source port, so that a NAT has one mapping: the kernel's range excludes the upper bound.
			ports := binary.BigEndian.AppendUint16(nil, s.udpPort)
			data.Bytes(unix.IFLA_VXLAN_PORT_RANGE, binary.BigEndian.AppendUint16(ports, s.udpPort+1))
			data.Uint8(unix.IFLA_VXLAN_LEARNING, 0)
			data.Uint8(unix.IFLA_VXLAN_TTL, timeToLive)
			data.Uint8(unix.IFLA_VXLAN_DF, dontFragment)
			if s.underlay != 0 {
				data.Uint32(unix.IFLA_VXLAN_LINK, uint32(s.underlay))
			}
			// With the remote address, the kernel makes the default entry over the underlay's device. It looks up the device
			// of later entries in the namespace of the port.
			if s.remote.Is4() {
				data.Bytes(unix.IFLA_VXLAN_GROUP, s.remote.AsSlice())
			} else if s.remote.Is6() {
				data.Bytes(unix.IFLA_VXLAN_GROUP6, s.remote.AsSlice())
			}
			if s.six {
				data.Bytes(unix.IFLA_VXLAN_LOCAL6, make([]byte, 16)) // any address: it selects an IPv6 socket instead of IPv4
			}
			return nil
		})
		return nil
	})
	silent := linkHeader(0, unix.IFF_NOARP, unix.IFF_NOARP) // from the start: a bridge that sets its flags writes back all flags that it read
	err := change(k.outer, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, silent, attributes)
	if errors.Is(err, unix.EEXIST) {
		return device{}, fmt.Errorf("cannot create the network device %s: another VXLAN device has VNI %d and UDP port %d; "+
			"remove it, or give this tunnel another VNI", s.name, s.vni, s.udpPort)
	}
	if err != nil {
		return device{}, fmt.Errorf("cannot create the network device %s: %w", s.name, err)
	}
	made, there, err := find(k.inner, s.name, 0)
	if err != nil || !there {
		return device{}, errors.Join(fmt.Errorf("the network device %s disappeared right after its creation", s.name), err)
	}
	if err := k.plain(made); err != nil {
		return device{}, errors.Join(err, k.remove(made))
	}
	made.alias, made.up, made.mtu = k.alias(s), true, mtu
	err = k.bringUp(made)
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("UDP port %d is in use by another program on this host (ss -ulpn 'sport = :%d' names it): stop it, or "+
			"set another udp_port", s.udpPort, s.udpPort)
	}
	return made, err
}

// bringUp sets the alias and brings the device up. The host's own stack sends nothing there.
func (k *kernel) bringUp(d device) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFALIAS, d.alias)
	attributes.Nested(unix.IFLA_AF_SPEC, func(families *netlink.AttributeEncoder) error {
		families.Nested(unix.AF_INET6, func(six *netlink.AttributeEncoder) error {
			six.Uint8(unix.IFLA_INET6_ADDR_GEN_MODE, noAddress)
			return nil
		})
		return nil
	})
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

func (k *kernel) setUp(d device, mtu int) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.IFLA_MTU, uint32(mtu))
	if err := change(k.inner, unix.RTM_SETLINK, 0, linkHeader(d.index, unix.IFF_UP, unix.IFF_UP), attributes); err != nil {
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

func (k *kernel) remove(d device) error {
	err := change(k.inner, unix.RTM_DELLINK, 0, linkHeader(d.index, 0, 0), netlink.NewAttributeEncoder())
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
