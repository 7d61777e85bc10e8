// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants of linux/pkt_sched.h and linux/pkt_cls.h.
const (
	clsactParent  = 0xfffffff1
	clsactHandle  = 0xffff0000
	clsactEgress  = 0xfffffff3
	clsactIngress = 0xfffffff2

	attributeKind    = 1 // TCA_KIND
	attributeOptions = 2
	bpfFD            = 6 // TCA_BPF_FD
	bpfName          = 7
	bpfFlags         = 8
	actDirect        = 1 // TCA_BPF_FLAG_ACT_DIRECT
)

var directions = []uint32{clsactEgress, clsactIngress}

// filters replace links on kernels before 6.6. They outlive the process.
type filters struct {
	index int
	made  bool // whether we created the clsact qdisc
}

func attachFilters(device *net.Interface, sends, comes *ebpf.Program) (attached, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	f := filters{index: device.Index}
	switch err := f.place(conn, unix.RTM_NEWQDISC, netlink.Create|netlink.Excl); {
	case err == nil:
		f.made = true
	case !errors.Is(err, unix.EEXIST):
		return nil, fmt.Errorf("cannot create the clsact qdisc: %w", err)
	}
	for _, each := range []struct {
		parent  uint32
		program *ebpf.Program
	}{{clsactEgress, sends}, {clsactIngress, comes}} {
		if err := f.add(conn, each.parent, each.program); err != nil {
			return nil, errors.Join(err, f.remove(conn))
		}
	}
	return f, nil
}

// inPlace reports whether both filters exist. If it cannot find out, it assumes so.
func (f filters) inPlace() bool {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return true
	}
	defer conn.Close()
	for _, parent := range directions {
		setState, err := f.setState(conn, parent)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return true
		}
		if !slices.ContainsFunc(setState, func(each filter) bool { return each.ours }) {
			return false
		}
	}
	return true
}

// Close leaves other processes' filters in place.
func (f filters) Close() error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f.remove(conn)
}

func (f filters) remove(conn *netlink.Conn) error {
	var failures []error
	others := 0
	for _, parent := range directions {
		setState, err := f.setState(conn, parent)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
			return nil // the device or its qdisc has gone, and with it the filters
		}
		failures = append(failures, err)
		for _, each := range setState {
			if each.ours {
				failures = append(failures, f.drop(conn, parent, each.info))
				continue
			}
			others++
		}
	}
	if f.made && others == 0 {
		failures = append(failures, f.place(conn, unix.RTM_DELQDISC, 0))
	}
	return errors.Join(failures...)
}

func (f filters) place(conn *netlink.Conn, kind netlink.HeaderType, flags netlink.HeaderFlags) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(attributeKind, "clsact")
	return f.ask(conn, kind, flags, tcmsg{handle: clsactHandle, parent: clsactParent}, attributes)
}

// add replaces a killed agent's filters.
func (f filters) add(conn *netlink.Conn, parent uint32, program *ebpf.Program) error {
	info, err := program.Info()
	if err != nil {
		return err
	}
	setState, err := f.setState(conn, parent)
	if err != nil {
		return fmt.Errorf("cannot list the filters: %w", err)
	}
	for _, each := range setState {
		if each.ours {
			if err := f.drop(conn, parent, each.info); err != nil {
				return fmt.Errorf("cannot remove a filter that an agent left: %w", err)
			}
		}
	}
	attributes := netlink.NewAttributeEncoder()
	attributes.String(attributeKind, "bpf")
	attributes.Nested(attributeOptions, func(options *netlink.AttributeEncoder) error {
		options.Uint32(bpfFD, uint32(program.FD()))
		options.String(bpfName, info.Name)
		options.Uint32(bpfFlags, actDirect)
		return nil
	})
	which := tcmsg{parent: parent, info: everyProtocol} // without a priority the kernel puts it before all others
	return f.ask(conn, unix.RTM_NEWTFILTER, netlink.Create|netlink.Excl, which, attributes)
}

func (f filters) drop(conn *netlink.Conn, parent, info uint32) error {
	return f.ask(conn, unix.RTM_DELTFILTER, 0, tcmsg{parent: parent, info: info}, netlink.NewAttributeEncoder())
}

type filter struct {
	info uint32 // priority and protocol
	ours bool
}

func (f filters) setState(conn *netlink.Conn, parent uint32) ([]filter, error) {
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETTFILTER, Flags: netlink.Request | netlink.Dump},
		Data:   tcmsg{index: f.index, parent: parent}.encoded(),
	})
	if err != nil {
		return nil, err
	}
	var all []filter
	for _, message := range messages {
		if len(message.Data) < sizeofTCMsg {
			return nil, fmt.Errorf("a filter message of %d bytes, expected at least %d", len(message.Data), sizeofTCMsg)
		}
		handle, info := binary.NativeEndian.Uint32(message.Data[8:]), binary.NativeEndian.Uint32(message.Data[16:])
		if handle == 0 {
			continue // the entry of a priority, which precedes its filters
		}
		ours, err := isOurs(message.Data[sizeofTCMsg:])
		if err != nil {
			return nil, err
		}
		all = append(all, filter{info, ours})
	}
	return all, nil
}

func isOurs(b []byte) (ours bool, err error) {
	attributes, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return false, err
	}
	for attributes.Next() {
		if attributes.Type() != attributeOptions {
			continue
		}
		attributes.Nested(func(options *netlink.AttributeDecoder) error {
			for options.Next() {
				if options.Type() == bpfName {
					ours = options.String() == "bicast_lower" || options.String() == "bicast_watch"
				}
			}
			return nil
		})
	}
	return ours, attributes.Err()
}

const sizeofTCMsg = 20

var everyProtocol = uint32(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})) // in network byte order

type tcmsg struct {
	index                int
	handle, parent, info uint32
}

func (m tcmsg) encoded() []byte {
	b := binary.NativeEndian.AppendUint32(make([]byte, 4), uint32(m.index)) // after AF_UNSPEC and padding
	b = binary.NativeEndian.AppendUint32(b, m.handle)
	b = binary.NativeEndian.AppendUint32(b, m.parent)
	return binary.NativeEndian.AppendUint32(b, m.info)
}

func (f filters) ask(conn *netlink.Conn, kind netlink.HeaderType, flags netlink.HeaderFlags, which tcmsg, attributes *netlink.AttributeEncoder) error {
	encoded, err := attributes.Encode()
	if err != nil {
		return err
	}
	which.index = f.index
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: append(which.encoded(), encoded...),
	})
	return err
}
