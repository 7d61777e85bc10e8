// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"bicast/internal/lab"
)

func TestTheFilterPassesOnlyMessages(t *testing.T) {
	host := lab.One(t)
	host.Run("ip", "link", "set", "lo", "up")
	message := message{kind: question, ticket: 1}.seal(testVNI, testKey)
	garbage := bytes.Clone(message)
	garbage[0] ^= 1
	for name, outside := range map[string]bool{"from anywhere": true, "through the tunnel": false} {
		t.Run(name, func(t *testing.T) {
			var heard *os.File
			host.Do(func() (err error) {
				device, err := net.InterfaceByName("lo")
				if err != nil {
					return err
				}
				if outside {
					heard, err = openOuter(false, udpPort, testVNI)
				} else {
					heard, err = openInner(device.Index)
				}
				return err
			})
			defer heard.Close()
			host.Do(func() error {
				if outside {
					return says(vxlan(testVNI, frame(toTheBridge, garbage)), vxlan(testVNI, frame(toTheBridge, message)))
				}
				return puts(frame(toTheBridge, garbage), frame(toTheBridge, message))
			})
			heard.SetReadDeadline(time.Now().Add(patient))
			buffer := make([]byte, packetBytes)
			n, err := heard.Read(buffer)
			if err != nil || !bytes.HasSuffix(buffer[:n], message) {
				t.Fatalf("%x (%v), expected the message alone", buffer[:n], err)
			}
		})
	}
}

// says sends to a UDP port of this host.
func says(payloads ...[]byte) error {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, each := range payloads {
		if _, err := conn.WriteTo(each, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: udpPort}); err != nil {
			return err
		}
	}
	return nil
}

// puts sends frames on lo, which also receives them.
func puts(frames ...[]byte) error {
	device, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	file, err := openInner(device.Index)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, each := range frames {
		if _, err := file.Write(each); err != nil {
			return err
		}
	}
	return nil
}
