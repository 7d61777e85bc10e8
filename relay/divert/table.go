package divert

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	tableName  = 1 // NFTA_TABLE_NAME, linux/netfilter/nf_tables.h
	familyInet = 1 // NFPROTO_INET
)

// tableThere is asked often, and so not by nft.
func tableThere() (bool, error) {
	failed := func(err error) (bool, error) {
		return false, fmt.Errorf("whether connections are led to the proxy cannot be seen: %w", err)
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
