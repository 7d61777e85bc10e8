// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// SetCongestion sets the congestion control of a socket; "" keeps the kernel's.
func SetCongestion(raw syscall.RawConn, name string) error {
	var refused error
	err := raw.Control(func(fd uintptr) { refused = choose(int(fd), name) })
	return errors.Join(err, refused)
}

// Congestion returns the congestion control that a socket gets with this choice; "" means the namespace's default.
func Congestion(name string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := choose(fd, name); err != nil {
		return "", err
	}
	return unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
}

func choose(fd int, name string) error {
	if name == "" {
		return nil
	}
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if err != nil {
		return fmt.Errorf("the congestion control %q cannot be had (%w): expected one of net.ipv4.tcp_available_congestion_control",
			name, err)
	}
	return nil
}
