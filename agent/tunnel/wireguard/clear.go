// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"
)

const (
	headroom   = 16 // bytes before a packet, which a TUN device uses
	longest    = 1 << 16
	ipv6       = 6
	versionBit = 4
)

// clear carries packets as an embedded device does, but without keys and in clear. It exists for measurements of what
// encryption costs: anyone can read and send packets, and take over the tunnel.
type clear struct {
	name  string
	link  tun.Device
	bind  conn.Bind
	port  uint16
	peer  atomic.Pointer[conn.Endpoint]
	parts sync.WaitGroup
}

// Clear opens a device without encryption, like Embedded.
func Clear(name string, mtu int) (Device, error) {
	link, err := open(name, mtu)
	if err != nil {
		return nil, err
	}
	c := &clear{name: name, link: link, bind: conn.NewDefaultBind()}
	c.parts.Add(1)
	go func() {
		defer c.parts.Done()
		c.send()
	}()
	go func() { // or the device stops at its fifth event
		for range link.Events() {
		}
	}()
	return c, nil
}

func (c *clear) Set(config Config) error {
	if c.port != config.ListenPort {
		if err := c.listen(config); err != nil {
			return fmt.Errorf("cannot open UDP port %d of %s: %w", config.ListenPort, c.name, err)
		}
	}
	if !config.Peer.Endpoint.IsValid() {
		return nil
	}
	endpoint, err := c.bind.ParseEndpoint(config.Peer.Endpoint.String())
	if err == nil {
		c.peer.Store(&endpoint)
	}
	return err
}

func (c *clear) listen(config Config) error {
	receivers, _, err := c.bind.Open(config.ListenPort)
	if err != nil {
		return err
	}
	c.port = config.ListenPort
	for _, receive := range receivers {
		c.parts.Add(1)
		go func() {
			defer c.parts.Done()
			c.receive(receive)
		}()
	}
	return c.bind.SetMark(config.Mark)
}

// receive takes packets of anyone, and then sends to there.
func (c *clear) receive(receive conn.ReceiveFunc) {
	whole, payloads, sizes := buffers(c.bind.BatchSize())
	endpoints := make([]conn.Endpoint, len(whole))
	for {
		count, err := receive(payloads, sizes, endpoints)
		if err != nil {
			return
		}
		packets := make([][]byte, 0, count)
		for i := range count {
			if sizes[i] > 0 && payloads[i][0]>>versionBit == ipv6 {
				packets = append(packets, whole[i][:headroom+sizes[i]])
				c.peer.Store(&endpoints[i])
			}
		}
		c.link.Write(packets, headroom) // a packet that the device refuses is lost
	}
}

func (c *clear) send() {
	whole, payloads, sizes := buffers(max(c.link.BatchSize(), c.bind.BatchSize()))
	for {
		count, err := c.link.Read(whole, sizes, headroom)
		if err != nil && !errors.Is(err, tun.ErrTooManySegments) {
			return
		}
		packets := make([][]byte, count)
		for i := range packets {
			packets[i] = payloads[i][:sizes[i]]
		}
		if to := c.peer.Load(); to != nil && count > 0 {
			c.bind.Send(packets, *to)
		}
	}
}

// buffers returns buffers, the same after their headroom, and room for the lengths of what is in them.
func buffers(count int) (whole, payloads [][]byte, sizes []int) {
	for range count {
		buffer := make([]byte, headroom+longest)
		whole, payloads = append(whole, buffer), append(payloads, buffer[headroom:])
	}
	return whole, payloads, make([]int, count)
}

func (c *clear) Forget() error { return nil }

func (c *clear) Session() (Session, error) {
	peer := c.peer.Load()
	if peer == nil {
		return Session{}, nil
	}
	at, err := netip.ParseAddrPort((*peer).DstToString())
	return Session{unmapped(at), true}, err
}

func (c *clear) Return() error { return nil }

func (c *clear) Hurry() {}

func (c *clear) Close() error {
	err := errors.Join(c.bind.Close(), c.link.Close())
	c.parts.Wait()
	return err
}
