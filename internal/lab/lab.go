// SPDX-License-Identifier: Apache-2.0

// Package lab gives tests two hosts, connected by two paths, in network namespaces.
//
//	client  wifi 10.1.0.1 ───── 10.1.0.2 wifi  server
//	        lte  10.2.0.1 ───── 10.2.0.2 lte
//	                            10.9.9.9 (and fd09::9), reachable over either path
//
// A namespace lives as long as its file is open or a thread is inside, so nothing remains after a test, even a killed
// one.
package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Service and Service6 are the server's own addresses.
const (
	Service  = "10.9.9.9"
	Service6 = "fd09::9"
)

// Host is one network namespace.
type Host struct {
	t    testing.TB
	file *os.File
}

// Two returns two hosts and the paths between them.
func Two(t testing.TB) (client, server *Host) {
	client, server = newHost(t), newHost(t)
	for i, path := range []string{"wifi", "lte"} {
		n := i + 1
		client.Run("ip", "link", "add", path, "type", "veth", "peer", "name", path, "netns", server.Path())
		client.address(path, fmt.Sprintf("10.%d.0.1/24", n), fmt.Sprintf("fd0%d::1/64", n))
		server.address(path, fmt.Sprintf("10.%d.0.2/24", n), fmt.Sprintf("fd0%d::2/64", n))
		for _, ip := range []struct{ version, from, gateway string }{
			{"-4", fmt.Sprintf("10.%d.0.1", n), fmt.Sprintf("10.%d.0.2", n)},
			{"-6", fmt.Sprintf("fd0%d::1", n), fmt.Sprintf("fd0%d::2", n)},
		} {
			table := strconv.Itoa(100 + n)
			client.Run("ip", ip.version, "route", "add", "default", "via", ip.gateway, "dev", path, "metric", table)
			client.Run("ip", ip.version, "route", "add", "default", "via", ip.gateway, "dev", path, "table", table)
			client.Run("ip", ip.version, "rule", "add", "from", ip.from, "table", table)
		}
	}
	server.address("lo", Service+"/32", Service6+"/128")
	return client, server
}

// One returns a single host.
func One(t testing.TB) *Host { return newHost(t) }

func newHost(t testing.TB) *Host {
	h := &Host{t: t}
	h.must(onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("cannot create a network namespace: %w; run the tests as root", err)
		}
		var err error
		h.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	}))
	t.Cleanup(func() { h.file.Close() })
	h.Run("ip", "link", "set", "lo", "up")
	return h
}

// Path returns a path to the namespace, valid while this process lives.
func (h *Host) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.file.Fd()) }

// Do runs work inside the namespace, on a thread of its own.
func (h *Host) Do(work func() error) {
	h.t.Helper()
	h.must(h.Try(work))
}

// Try is Do for work that may fail.
func (h *Host) Try(work func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(h.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return work()
	})
}

// Run runs a command inside the namespace, which must succeed, and returns its output.
func (h *Host) Run(argv ...string) string {
	h.t.Helper()
	var out []byte
	h.Do(func() error {
		var err error
		if out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
		return nil
	})
	return string(out)
}

// Sysctl sets a value in /proc/sys/net/.
func (h *Host) Sysctl(name, value string) {
	h.t.Helper()
	h.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
}

// Counter returns one of MPTCP's counters, by its name in `nstat` without the prefix.
func (h *Host) Counter(name string) int {
	h.t.Helper()
	var table []byte
	h.Do(func() (err error) {
		table, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	})
	var names []string
	for _, line := range bytes.Split(table, []byte("\n")) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "MPTcpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, field := range fields {
			if names[i] == name {
				count, err := strconv.Atoi(field)
				h.must(err)
				return count
			}
		}
	}
	h.t.Fatalf("the kernel does not count %s", name)
	return 0
}

// Blacken sends everything over an interface to a MAC address that does not exist, while the interface stays up.
func (h *Host) Blacken(path, neighbour string) {
	h.t.Helper()
	h.Run("ip", "neigh", "replace", neighbour, "lladdr", "02:00:00:00:be:ef", "dev", path, "nud", "permanent")
}

func (h *Host) address(device string, addresses ...string) {
	h.t.Helper()
	h.Run("ip", "link", "set", device, "up")
	for _, address := range addresses {
		argv := []string{"ip", "address", "add", address, "dev", device}
		if strings.Contains(address, ":") {
			argv = append(argv, "nodad")
		}
		h.Run(argv...)
	}
}

func (h *Host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func onOwnThread(work func() error) error {
	outcome := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		outcome <- work()
	}()
	return <-outcome
}
