// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"bicast/mptcp"
)

// The namespace in which a child process of this test program switches to and fro until it is killed.
const switchesIn = "BICAST_TEST_SWITCHES_IN"

func TestMain(m *testing.M) {
	if namespace := os.Getenv(switchesIn); namespace != "" {
		fmt.Println(switchForEver(namespace))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func switchForEver(namespace string) error {
	handle, err := mptcp.Open(namespace)
	if err != nil {
		return err
	}
	wifi, lte := []netip.Addr{netip.MustParseAddr(fromWifi)}, []netip.Addr{netip.MustParseAddr(fromLTE)}
	for {
		if _, err := handle.PreferEndpoints(wifi, lte, true); err != nil {
			return err
		}
		if _, err := handle.PreferEndpoints(lte, wifi, true); err != nil {
			return err
		}
		fmt.Print(".")
	}
}

func TestKilledHardSwitchLeavesTheEndpointsUnchanged(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	must(t, b.handle.AddEndpoint(mptcp.Endpoint{Address: netip.MustParseAddr(fromWifi), Flags: mptcp.Initiate, Interface: 2}))
	before, err := b.handle.Endpoints()
	must(t, err)
	device := map[netip.Addr]int32{}
	for _, e := range before {
		device[e.Address] = e.Interface
	}
	for range 40 {
		killedWhileSwitching(t, b.client.Path())
		after, err := b.handle.Endpoints()
		must(t, err)
		for _, e := range after {
			if e.Interface != device[e.Address] {
				t.Fatalf("before %+v, after %+v", before, after)
			}
		}
		if len(after) != len(before) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	}
}

// killedWhileSwitching kills the child after its first switch, at a random moment of a later one.
func killedWhileSwitching(t *testing.T, namespace string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), switchesIn+"="+namespace)
	said, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	first := make([]byte, 64)
	n, err := said.Read(first)
	must(t, err)
	if first[0] != '.' {
		t.Fatalf("it did not switch: %s", first[:n])
	}
	time.Sleep(time.Duration(time.Now().UnixNano() % int64(10*time.Millisecond))) // a random moment of a switch
	must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
}
