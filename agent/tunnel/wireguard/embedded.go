// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// embedded is a TUN device whose packets this process encrypts.
type embedded struct {
	name   string
	device *device.Device
	set    Config
}

// Embedded opens a device of the calling thread's namespace, and creates it if it does not exist. It must not be in use.
func Embedded(name string, mtu int, log *slog.Logger) (Device, error) {
	link, err := open(name, mtu)
	if err != nil {
		return nil, err
	}
	said := &device.Logger{Verbosef: device.DiscardLogf, Errorf: func(format string, about ...any) {
		log.Debug("WireGuard", "device", name, "said", fmt.Sprintf(format, about...)) // strangers can make it say much
	}}
	opened := device.NewDevice(link, conn.NewDefaultBind(), said)
	if err := opened.Up(); err != nil {
		opened.Close()
		return nil, fmt.Errorf("cannot open the WireGuard device %s: %w", name, err)
	}
	return &embedded{name: name, device: opened}, nil
}

// open opens a TUN device that outlives this process: a bridge may read what is on it.
func open(name string, mtu int) (tun.Device, error) {
	link, err := tun.CreateTUN(name, mtu)
	if err != nil {
		return nil, fmt.Errorf("cannot open the TUN device %s: %w", name, err)
	}
	file, err := link.File().SyscallConn()
	var failure error
	if err == nil {
		err = file.Control(func(fd uintptr) { failure = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 1) })
	}
	if err := errors.Join(err, failure); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return link, nil
}

func (e *embedded) Set(c Config) error {
	var text strings.Builder
	fmt.Fprintf(&text, "private_key=%s\nfwmark=%d\nlisten_port=%d\n", hex.EncodeToString(c.Private[:]), c.Mark, c.ListenPort)
	if e.set.Peer.Public != c.Peer.Public {
		text.WriteString("replace_peers=true\n")
	}
	if c.Peer.Public != (Key{}) {
		c.Peer.write(&text)
	}
	e.set = c
	return e.failure(e.device.IpcSet(text.String()))
}

func (p Peer) write(text *strings.Builder) {
	fmt.Fprintf(text, "public_key=%s\npreshared_key=%s\n", hex.EncodeToString(p.Public[:]), hex.EncodeToString(p.Preshared[:]))
	if p.Endpoint.IsValid() {
		fmt.Fprintf(text, "endpoint=%v\n", p.Endpoint)
	}
	fmt.Fprintf(text, "replace_allowed_ips=true\nallowed_ip=%v/%d\n", p.Inside, p.Inside.BitLen())
}

func (e *embedded) Forget() error {
	if e.set.Peer.Public == (Key{}) {
		return nil
	}
	var text strings.Builder
	text.WriteString("replace_peers=true\n")
	e.set.Peer.write(&text)
	return e.failure(e.device.IpcSet(text.String()))
}

func (e *embedded) Session() (session Session, err error) {
	text, err := e.device.IpcGet()
	if err != nil {
		return session, e.failure(err)
	}
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "endpoint":
			if session.Endpoint, err = netip.ParseAddrPort(value); err != nil {
				return session, e.failure(err)
			}
			session.Endpoint = unmapped(session.Endpoint)
		case "last_handshake_time_sec":
			session.Begun = value != "0"
		}
	}
	return session, nil
}

func (e *embedded) Return() error {
	var text strings.Builder
	e.set.Peer.write(&text) // of a peer that is there
	return e.failure(e.device.IpcSet(text.String()))
}

func (e *embedded) Hurry() {
	if peer := e.device.LookupPeer(device.NoisePublicKey(e.set.Peer.Public)); peer != nil {
		peer.SendHandshakeInitiation(false) // at most one in 5 s
	}
}

func (e *embedded) Close() error {
	e.device.Close()
	return nil
}

func (e *embedded) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot configure the WireGuard device %s: its UDP port is in use: %w", e.name, err)
	default:
		return fmt.Errorf("cannot configure the WireGuard device %s: %w", e.name, err)
	}
}
