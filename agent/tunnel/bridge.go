// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"bicast/internal/hostcommand"
)

const (
	ovsAtMost    = 10 * time.Second
	ovsLooks     = 200 * time.Millisecond // a bridge that waits for a device takes it in 30 ms
	ovsSeldom    = 10 * time.Second
	packetDevice = 4       // the column of the device's index in /proc/net/packet
	ovsNowhere   = "65000" // a number that no port of a site has
)

// offloads make packets with partial checksums, or longer than a port's MTU. Open vSwitch's userspace datapath would
// forward them unchanged.
var offloads = []uint32{
	unix.ETHTOOL_SGRO, unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STXCSUM, unix.ETHTOOL_SRXCSUM,
}

// Plain turns off the offloads of a device.
func Plain(inside func(func() error) error, name string) error {
	return plain(inside, name, offloads...)
}

// Reopened makes Open vSwitch read a device that was replaced.
func Reopened(ctx context.Context, inside func(func() error) error, name string, log *slog.Logger) {
	k, err := openKernel(inside, inside)
	if err == nil {
		defer k.close()
		var there bool
		var d device
		if d, there, err = find(k.inner, name, 0); err == nil && there && !k.read(d) {
			k.reopened(ctx, d, log)
		}
	}
	if err != nil {
		log.Warn("a bridge may not receive from a device", "port", name, "reason", err)
	}
}

// plain turns off the offloads of a device, so that a bridge receives packets as they are on the wire.
func plain(inside func(func() error) error, name string, offloads ...uint32) error {
	return inside(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, each := range offloads {
			value := struct{ command, data uint32 }{each, 0}
			request := struct { // struct ifreq
				name  [unix.IFNAMSIZ]byte
				value unsafe.Pointer
				_     [16]byte // it is a union
			}{value: unsafe.Pointer(&value)}
			copy(request.name[:], name)
			_, _, failure := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
			if failure != 0 {
				return fmt.Errorf("cannot turn off the offloads of %s: %w", name, failure)
			}
		}
		return nil
	})
}

// reopened makes Open vSwitch read a device that was replaced. Its userspace datapath sends by the new device of the
// port's name but still reads the old one (openvswitch/ovs-issues #313). A change of the port's number ends that, so the
// port gets another number for a moment. reopened retries with a growing interval, since a bridge may be slow or start
// after the agent.
func (k *kernel) reopened(ctx context.Context, d device, log *slog.Logger) {
	at, said := port{name: d.name, mac: d.mac}, ""
	for wait := ovsLooks; ; wait = min(wait*3/2, ovsSeldom) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		now, there, err := find(k.inner, d.name, 0)
		over := err == nil && (!there || now.index != d.index || k.read(now))
		switch {
		case over:
			err = at.renumber(ctx)
		case err == nil:
			err = at.reopen(ctx)
		}
		if over && err == nil {
			return
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			log.Warn("a bridge may not receive from a device; the agent retries", "port", d.name, "reason", err)
		}
	}
}

// read reports whether a bridge reads a device. A userspace bridge sets flags by name, so it may have set them while it
// still reads the old device. So another socket than ours must listen on this one.
func (k *kernel) read(d device) bool {
	if d.enslaved || !d.promisc {
		return d.enslaved
	}
	listeners := 0
	err := k.inside(func() error {
		table, err := os.ReadFile("/proc/thread-self/net/packet")
		for line := range strings.Lines(string(table)) {
			if at := strings.Fields(line); len(at) > packetDevice && at[packetDevice] == strconv.Itoa(d.index) {
				listeners++
			}
		}
		return err
	})
	return err != nil || listeners > 0 // without the table only the flag is known
}

// port is a port of Open vSwitch that gets another number for a moment.
type port struct {
	name   string
	mac    string // of the device that the bridge should read
	number string // the number to restore; empty: unchanged
}

// reopen changes the port's number and restores it. It does nothing without Open vSwitch, without such a port, or if the
// port has another device: the bridge does not know ours yet, or is in another namespace.
func (p *port) reopen(ctx context.Context) error {
	if p.number == "" {
		told, err := vsctl(ctx, "--if-exists", "get", "Interface", p.name, "mac_in_use", "ofport", "ofport_request")
		if errors.Is(err, exec.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		mac, numbers, _ := strings.Cut(told, "\n")
		if strings.Trim(mac, `"`) != p.mac {
			return nil
		}
		number, requested, _ := strings.Cut(numbers, "\n")
		if at, err := strconv.Atoi(number); err != nil || at <= 0 {
			return nil
		}
		if _, err := strconv.Atoi(requested); err != nil {
			requested = number
		}
		p.number = requested
	}
	return errors.Join(p.request(ctx, ovsNowhere), p.renumber(ctx))
}

// renumber restores the port's number, also while this agent ends.
func (p *port) renumber(ctx context.Context) error {
	if p.number == "" {
		return nil
	}
	err := p.request(context.WithoutCancel(ctx), p.number)
	if err == nil {
		p.number = ""
	}
	return err
}

func (p *port) request(ctx context.Context, number string) error {
	_, err := vsctl(ctx, "--if-exists", "set", "Interface", p.name, "ofport_request="+number)
	return err
}

func vsctl(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ovsAtMost)
	defer cancel()
	out, err := hostcommand.Command(ctx, "ovs-vsctl", append([]string{"--timeout=5"}, words...)...).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("ovs-vsctl %s: %w: %s", strings.Join(words, " "), err, said)
	}
	return said, nil
}
