// SPDX-License-Identifier: Apache-2.0

// Package nftable reads a table of nftables over netlink, without nft.
package nftable

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// Attributes of rules, objects and counters (linux/netfilter/nf_tables.h).
	ruleTable                           = 1
	objectTable, objectName, objectData = 1, 2, 4
	counterPackets                      = 2

	familyInet = 1 // NFPROTO_INET
)

// Rules returns the number of rules in an inet table of the calling thread's network namespace, 0 if there is no such
// table. The creator of the table compares it: flushing deletes rules and leaves chains, sets and counters.
func Rules(table string) (int, error) {
	messages, err := dump(unix.NFT_MSG_GETRULE, ruleTable, table)
	if err != nil {
		return 0, fmt.Errorf("cannot read the rules of the nft table %s: %w", table, err)
	}
	return len(messages), nil
}

// Counters returns the packets of each named counter in a table, nil if there are none.
func Counters(table string) (map[string]uint64, error) {
	messages, err := dump(unix.NFT_MSG_GETOBJ, objectTable, table)
	if err != nil {
		return nil, fmt.Errorf("cannot read the counters of the nft table %s: %w", table, err)
	}
	var found map[string]uint64
	for _, message := range messages {
		name, packets, err := decodeCounter(message.Data)
		if err != nil {
			return nil, fmt.Errorf("cannot read the counters of the nft table %s: %w", table, err)
		}
		if found == nil {
			found = map[string]uint64{}
		}
		found[name] = packets
	}
	return found, nil
}

// dump returns all objects of a kind in a table; the attribute holds the table's name.
func dump(kind netlink.HeaderType, attribute uint16, table string) ([]netlink.Message, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	attributes := netlink.NewAttributeEncoder()
	attributes.String(attribute, table)
	encoded, err := attributes.Encode()
	if err != nil {
		return nil, err
	}
	return conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | kind, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{familyInet, 0, 0, 0}, encoded...), // struct nfgenmsg
	})
}

func decodeCounter(b []byte) (name string, packets uint64, err error) {
	const header = 4 // struct nfgenmsg
	if len(b) < header {
		return "", 0, fmt.Errorf("a counter message of %d bytes, expected at least %d", len(b), header)
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
