// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	solMPTCP     = 284
	mptcpInfo    = 1
	flagFallback = 1 << 0 // MPTCP_INFO_FLAG_FALLBACK
	flagsAt      = 2      // index in struct mptcp_info, in words of 4 bytes
	tokenAt      = 3
	infoLength   = 4
)

// OfSocket returns the connection of a socket of this process, with token and cookie for orders.
func OfSocket(socket syscall.RawConn) (Connection, error) {
	var info [infoLength]uint32
	var c Connection
	var refused error
	err := socket.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, solMPTCP, mptcpInfo,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			refused = errno
			return
		}
		c.Cookie, refused = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	})
	if err = errors.Join(err, refused); err != nil {
		return Connection{}, fmt.Errorf("this is not an MPTCP connection: %w", err)
	}
	if info[flagsAt]&flagFallback != 0 {
		return Connection{}, errors.New("this is not an MPTCP connection: the other end does not support it, or a middlebox removes its options")
	}
	c.Token = Token(info[tokenAt])
	return c, nil
}
