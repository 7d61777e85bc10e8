// Package nftable tells of a table of nftables, without running nft.
package nftable

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// The attributes of an object, and of what it counted (linux/netfilter/nf_tables.h).
	objectTable, objectName, objectData = 1, 2, 4
	counterPackets                      = 2

	tableName  = 1 // NFTA_TABLE_NAME, linux/netfilter/nf_tables.h
	familyInet = 1 // NFPROTO_INET
)

// Has tells whether a table of the family inet is in the network namespace of the calling thread.
func Has(table string) (bool, error) {
	failed := func(err error) (bool, error) {
		return false, fmt.Errorf("whether the table %s of nft is there cannot be seen: %w", table, err)
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	attributes := netlink.NewAttributeEncoder()
	attributes.String(tableName, table)
	encoded, err := attributes.Encode()
	if err != nil {
		return failed(err)
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE, Flags: netlink.Request},
		Data:   append([]byte{familyInet, 0, 0, 0}, encoded...), // struct nfgenmsg
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return failed(err)
	default:
		return true, nil
	}
}

// Counters are the packets that each counter of a table has counted, by its name; nil where there is no table, or none in it.
func Counters(table string) (map[string]uint64, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	attributes := netlink.NewAttributeEncoder()
	attributes.String(objectTable, table)
	encoded, err := attributes.Encode()
	if err != nil {
		return nil, err
	}
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETOBJ, Flags: netlink.Request | netlink.Dump,
		},
		Data: append([]byte{familyInet, 0, 0, 0}, encoded...), // struct nfgenmsg
	})
	if err != nil {
		return nil, fmt.Errorf("the counters of the table %s of nft cannot be read: %w", table, err)
	}
	var found map[string]uint64
	for _, message := range messages {
		name, packets, err := decodeCounter(message.Data)
		if err != nil {
			return nil, fmt.Errorf("the counters of the table %s of nft cannot be read: %w", table, err)
		}
		if found == nil {
			found = map[string]uint64{}
		}
		found[name] = packets
	}
	return found, nil
}

func decodeCounter(b []byte) (name string, packets uint64, err error) {
	const header = 4 // struct nfgenmsg
	if len(b) < header {
		return "", 0, fmt.Errorf("a counter of %d bytes, expected at least %d", len(b), header)
	}
	attributes, err := netlink.NewAttributeDecoder(b[header:])
	if err != nil {
		return "", 0, err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		switch attributes.Type() {
		case objectName:
			name = attributes.String()
		case objectData:
			attributes.Nested(func(data *netlink.AttributeDecoder) error {
				data.ByteOrder = binary.BigEndian
				for data.Next() {
					if data.Type() == counterPackets {
						packets = data.Uint64()
					}
				}
				return nil
			})
		}
	}
	return name, packets, attributes.Err()
}
