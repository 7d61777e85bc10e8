package tunnel

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	rulesEach = 4 // of a tunnel: rules in pin.go

	ruleTable = 1 // NFTA_RULE_TABLE, linux/netfilter/nf_tables.h
)

// ruled is how many rules stand: counters stand on when somebody flushes rules, and strangers pass.
func (p pins) ruled() (int, error) {
	failed := func(err error) (int, error) {
		return 0, fmt.Errorf("whether strangers are kept out cannot be seen: %w", err)
	}
	var conn *netlink.Conn
	err := p.outside(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	attributes := netlink.NewAttributeEncoder()
	attributes.String(ruleTable, table)
	encoded, err := attributes.Encode()
	if err != nil {
		return failed(err)
	}
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump,
		},
		Data: append([]byte{familyInet, 0, 0, 0}, encoded...), // struct nfgenmsg
	})
	if err != nil {
		return failed(err)
	}
	return len(messages), nil
}
