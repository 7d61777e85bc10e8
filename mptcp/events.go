// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// EventKind is the type of an event.
type EventKind uint8

// The kinds of events, with the kernel's numbers.
const (
	ConnectionCreated     EventKind = 1
	ConnectionEstablished EventKind = 2
	ConnectionClosed      EventKind = 3
	AddressAnnounced      EventKind = 6 // by the peer
	AddressRemoved        EventKind = 7 // by the peer
	SubflowEstablished    EventKind = 10
	SubflowClosed         EventKind = 11
	PriorityChanged       EventKind = 13 // by the peer; our own orders cause no event
	ListenerCreated       EventKind = 15
	ListenerClosed        EventKind = 16
)

var eventNames = map[EventKind]string{
	ConnectionCreated: "created", ConnectionEstablished: "established", ConnectionClosed: "closed",
	AddressAnnounced: "announced", AddressRemoved: "removed", SubflowEstablished: "subflow_established",
	SubflowClosed: "subflow_closed", PriorityChanged: "priority", ListenerCreated: "listener_created",
	ListenerClosed: "listener_closed",
}

// String returns the kind as `monitor` prints it.
func (k EventKind) String() string {
	if name, known := eventNames[k]; known {
		return name
	}
	return fmt.Sprintf("event_%d", uint8(k))
}

// Event is an MPTCP event of the kernel. Fields that its kind does not have are zero.
type Event struct {
	Kind          EventKind
	At            time.Time // when it was read
	Token         Token     // 0 for listeners
	Local, Remote netip.AddrPort
	LocalID       uint8
	RemoteID      uint8
	Backup        bool
	Errno         unix.Errno // why a subflow closed
	ResetReason   uint32     // RFC 8684 section 3.6, why a subflow was reset
	Interface     int32
	ServerSide    bool
}

// Events streams the MPTCP events of the namespace until the context ends or the kernel closes the stream; then it
// closes the channel. After a buffer overflow it sends an event of kind 0: read the connections again then.
//
// Connections under the userspace path manager accept joins only while a process listens for events.
func (h *Handle) Events(ctx context.Context) (<-chan Event, error) {
	conn, err := h.subscribe()
	if err != nil {
		return nil, err
	}
	events := make(chan Event)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		defer close(events)
		defer conn.Close()
		defer stop()
		for {
			messages, _, err := conn.Receive()
			if errors.Is(err, unix.ENOBUFS) {
				messages = []genetlink.Message{{}}
			} else if err != nil {
				return // the context ended, or the socket failed
			}
			now := time.Now()
			for _, message := range messages {
				event, err := decodeEvent(message)
				if err != nil {
					continue // an incompatible newer kernel
				}
				event.At = now
				select {
				case events <- event:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return events, nil
}

func (h *Handle) subscribe() (*genetlink.Conn, error) {
	for _, group := range h.family.Groups {
		if group.Name != eventGroup {
			continue
		}
		conn, err := genetlink.Dial(h.namespace.config())
		if err == nil {
			if err = errors.Join(enlargeBuffer(conn), conn.JoinGroup(group.ID)); err == nil {
				return conn, nil
			}
			conn.Close()
		}
		return nil, refusal("cannot subscribe to the kernel's MPTCP events", err)
	}
	return nil, &Error{Kind: NoMPTCP, What: "this kernel has no MPTCP events", Advice: "boot Linux 5.19 or newer"}
}

// A thousand connections that open a subflow at once cause half a megabyte of events.
const eventBytes = 4 << 20

// enlargeBuffer enlarges the receive buffer beyond net.core.rmem_max.
func enlargeBuffer(conn *genetlink.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBytes)
	})
	if errors.Is(refused, unix.EPERM) { // in a user namespace: keep the default buffer
		refused = nil
	}
	return errors.Join(err, refused)
}

// decodeEvent decodes the attributes of enum mptcp_event_attr.
func decodeEvent(message genetlink.Message) (Event, error) {
	event := Event{Kind: EventKind(message.Header.Command)}
	attributes, err := netlink.NewAttributeDecoder(message.Data)
	if err != nil {
		return event, fmt.Errorf("an event's attributes: %w", err)
	}
	var local, remote netip.Addr
	var localPort, remotePort uint16
	for attributes.Next() {
		switch attributes.Type() {
		case 1:
			event.Token = Token(attributes.Uint32())
		case 3:
			event.LocalID = attributes.Uint8()
		case 4:
			event.RemoteID = attributes.Uint8()
		case 5, 6:
			attributes.Do(func(b []byte) error { return decodeAddress(b, &local) })
		case 7, 8:
			attributes.Do(func(b []byte) error { return decodeAddress(b, &remote) })
		case 9:
			attributes.Do(func(b []byte) error { return decodePort(b, &localPort) })
		case 10:
			attributes.Do(func(b []byte) error { return decodePort(b, &remotePort) })
		case 11:
			event.Backup = attributes.Uint8() != 0
		case 12:
			event.Errno = unix.Errno(attributes.Uint8())
		case 15:
			event.Interface = attributes.Int32()
		case 16:
			event.ResetReason = attributes.Uint32()
		case 18:
			event.ServerSide = attributes.Uint8() != 0
		}
	}
	if err := attributes.Err(); err != nil {
		return event, fmt.Errorf("an event's attributes: %w", err)
	}
	event.Local = plainAddress(netip.AddrPortFrom(local, localPort))
	event.Remote = plainAddress(netip.AddrPortFrom(remote, remotePort))
	return event, nil
}

func decodePort(b []byte, into *uint16) error {
	if len(b) != 2 {
		return fmt.Errorf("a port of %d bytes, expected 2", len(b))
	}
	*into = binary.BigEndian.Uint16(b)
	return nil
}
