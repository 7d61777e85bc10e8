// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"bicast/api/agentv1"
)

// DefaultLeases is the file in which dnsmasq keeps the leases of `bicast lan`.
const DefaultLeases = "/var/lib/bicast-lan/leases"

const (
	maxDevices    = 1024
	maxLeaseBytes = 1 << 20
)

// Leases returns a function that reads the devices of dnsmasq's lease file. Without a readable file there are none.
func Leases(path string, log *slog.Logger) func() []*agentv1.LanDevice {
	before := ""
	return func() []*agentv1.LanDevice {
		found, err := read(path)
		if said := fmt.Sprint(err); err != nil && said != before {
			log.Error("cannot read the leases of the LAN", "reason", err)
			before = said
		}
		return found
	}
}

func read(path string) ([]*agentv1.LanDevice, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return devices(io.LimitReader(file, maxLeaseBytes))
}

// devices reads lines such as "1764230400 02:00:00:00:08:01 192.168.8.57 tablet 01:02:00:00:00:08:01". A name of * is
// unknown. The lines after the first with another form are leases of DHCPv6.
func devices(from io.Reader) (found []*agentv1.LanDevice, err error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() && len(found) < maxDevices {
		words := strings.Fields(lines.Text())
		if len(words) != 5 {
			break
		}
		device := &agentv1.LanDevice{Mac: words[1], Address: words[2]}
		if words[3] != "*" {
			device.Name = words[3]
		}
		found = append(found, device)
	}
	return found, lines.Err()
}
