// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const leases = `1764230400 02:00:00:00:08:01 192.168.8.57 tablet 01:02:00:00:00:08:01
1764230401 02:00:00:00:08:02 192.168.8.20 * *
duid 00:01:00:01:2c:aa:bb:cc:02:00:00:00:00:01
1764230402 1234 fd00:8::57 tablet 00:01:00:01
`

func TestLeasesReturnsTheDevicesOfDHCP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	var log bytes.Buffer
	read := Leases(path, slog.New(slog.NewTextHandler(&log, nil)))
	if found := read(); found != nil || log.Len() != 0 {
		t.Fatalf("%v, %v without a file, expected no devices", found, &log)
	}
	if err := os.WriteFile(path, []byte(leases), 0o644); err != nil {
		t.Fatal(err)
	}
	found := read()
	if len(found) != 2 {
		t.Fatalf("%v, %v, expected two devices", found, &log)
	}
	if said := fmt.Sprint(found[0].GetName(), found[0].GetAddress(), found[0].GetMac()); said != "tablet192.168.8.5702:00:00:00:08:01" {
		t.Fatal(said)
	}
	if found[1].GetName() != "" {
		t.Fatalf("the name %q, expected none", found[1].GetName())
	}
	unreadable := Leases(t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		if found := unreadable(); found != nil || strings.Count(log.String(), "cannot read the leases") != 1 {
			t.Fatalf("%v, %v, expected no device and one complaint", found, &log)
		}
	}
}

func TestLeasesReportsAtMost1024Devices(t *testing.T) {
	many := strings.Repeat("1764230400 02:00:00:00:08:01 192.168.8.57 tablet *\n", maxDevices+1)
	found, err := devices(strings.NewReader(many))
	if err != nil || len(found) != maxDevices {
		t.Fatalf("%d devices, %v, expected %d", len(found), err, maxDevices)
	}
}
