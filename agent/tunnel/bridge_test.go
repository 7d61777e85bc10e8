// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

// openVSwitch starts an Open vSwitch with the userspace datapath on a host and returns the forwarding process.
func openVSwitch(t *testing.T, host *lab.Host) *os.Process {
	t.Helper()
	directory := t.TempDir()
	for _, place := range []string{"OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"} {
		t.Setenv(place, directory)
	}
	database := filepath.Join(directory, "conf.db")
	host.Run("ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema")
	begin := func(argv ...string) *os.Process {
		var daemon *exec.Cmd
		host.Do(func() error {
			daemon = exec.Command(argv[0], argv[1:]...)
			return daemon.Start()
		})
		t.Cleanup(func() {
			daemon.Process.Kill()
			daemon.Wait()
		})
		return daemon.Process
	}
	begin("ovsdb-server", "--remote=punix:"+filepath.Join(directory, "db.sock"), database)
	host.Run("ovs-vsctl", "--retry", "--timeout=60", "--no-wait", "init")
	return begin("ovs-vswitchd")
}

// bridged returns a world whose far site has its tunnel as port 7 of an Open vSwitch.
func bridged(t *testing.T) (w *world, forwards *os.Process) {
	t.Helper()
	w = newWorld(t, false)
	forwards = openVSwitch(t, w.far)
	w.far.Run("ovs-vsctl", "--timeout=60", "add-br", "site", "--", "set", "Bridge", "site", "datapath_type=netdev")
	command := exec.Command("ovs-vsctl", "--timeout=60", "add-port", "site", "tun", "--", "set", "Interface", "tun", "ofport_request=7")
	if said, err := command.CombinedOutput(); err != nil { // reports the missing device without an error
		t.Fatal(err, string(said))
	}
	w.nft(w.far, `table inet deaf {
chain prerouting {
type filter hook prerouting priority raw;
iifname "tun" drop
}
}`) // keeps the host from receiving what its bridge does not read
	near, away := w.orders()
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.far, away)
	w.await("the ends hear each other", w.alive)
	w.ports.Run("ip", "link", "set", "tun", "arp", "on")
	w.ports.Run("ip", "address", "replace", "10.99.0.1/24", "dev", "tun")
	w.far.Run("ip", "link", "set", "site", "up")
	w.far.Run("ip", "address", "replace", "10.99.0.2/24", "dev", "site")
	w.await("the bridge reads the device", func() bool { return w.ping(100) })
	return w, forwards
}

// replace replaces the device before the bridge notices that the old one is gone.
func (w *world) replace(forwards *os.Process) {
	w.t.Helper()
	forwards.Signal(unix.SIGSTOP)
	defer forwards.Signal(unix.SIGCONT)
	w.far.Run("ip", "link", "delete", "tun")
	w.await("the device is there again", func() bool {
		return w.far.Try(func() error { return exec.Command("ip", "link", "show", "tun").Run() }) == nil
	})
}

func (w *world) expectNumber7() {
	w.t.Helper()
	w.await("the port has its number", func() bool {
		return w.far.Run("ovs-vsctl", "get", "Interface", "tun", "ofport") == "7\n"
	})
}

func TestABridgeReadsAReplacedDevice(t *testing.T) {
	w, _ := bridged(t)
	for n := range 2 {
		w.far.Run("ip", "link", "delete", "tun")
		w.await(fmt.Sprintf("it reads it again (%d)", n), func() bool { return w.ping(100) })
	}
	w.expectNumber7()
}

// slowToAsk is an ovs-vsctl whose first six answers show the port without its device, and whose next call fails once.
const slowToAsk = `#!/bin/sh
echo asked >>%[1]s/asked
case $(wc -l <%[1]s/asked) in
[1-6]) echo '[]'; echo -1; echo '[]' ;;
7) exit 1 ;;
*) exec %[2]s "$@" ;;
esac
`

func TestASlowBridgeReadsAReplacedDevice(t *testing.T) {
	w, forwards := bridged(t)
	real, err := exec.LookPath("ovs-vsctl")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	script := fmt.Appendf(nil, slowToAsk, directory, real)
	if err := os.WriteFile(filepath.Join(directory, "ovs-vsctl"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	before := os.Getenv("PATH")
	t.Setenv("PATH", directory+":"+before)
	w.replace(forwards)
	w.await("it reads it again", func() bool { return w.ping(100) })
	t.Setenv("PATH", before)
	w.expectNumber7()
}

func TestAPromiscuousFlagAloneIsNoReadingBridge(t *testing.T) {
	w, forwards := bridged(t)
	forwards.Signal(unix.SIGSTOP)
	defer forwards.Signal(unix.SIGCONT)
	w.far.Run("ip", "link", "delete", "tun")
	w.await("the device is there again, with the flag of one that is read", func() bool {
		return w.far.Try(func() error { return exec.Command("ip", "link", "set", "tun", "promisc", "on").Run() }) == nil
	})
	forwards.Signal(unix.SIGCONT)
	w.await("the bridge reads it", func() bool { return w.ping(100) })
	w.expectNumber7()
}

func TestBridgeReadsADeviceThatAnotherProgramReplaced(t *testing.T) {
	host := lab.One(t)
	openVSwitch(t, host)
	host.Run("ovs-vsctl", "--timeout=60", "add-br", "site", "--", "set", "Bridge", "site", "datapath_type=netdev")
	renew := func() {
		host.Run("ip", "link", "add", "rl", "up", "type", "veth", "peer", "name", "rl-h")
		host.Run("ip", "link", "set", "rl-h", "up")
	}
	renew()
	host.Run("ovs-vsctl", "--timeout=60", "add-port", "site", "rl", "--", "set", "Interface", "rl", "ofport_request=7")
	for n := range 2 {
		ctx, stop := context.WithTimeout(t.Context(), patient)
		Reopened(ctx, host.Try, "rl", slog.Default())
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d: %v, expected the bridge to read the device and no further request", n, err)
		}
		stop()
		if number := host.Run("ovs-vsctl", "get", "Interface", "rl", "ofport"); number != "7\n" {
			t.Fatalf("%d: the port has the number %s, expected its own, 7", n, number)
		}
		host.Run("ip", "link", "delete", "rl")
		renew()
	}
}
