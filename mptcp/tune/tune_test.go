// SPDX-License-Identifier: Apache-2.0

package tune_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/mptcp"
	"bicast/mptcp/tune"
)

const patience = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *mptcp.Handle {
	t.Helper()
	h, err := mptcp.Open(path)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

// until polls a condition that causes no event, with a generous bound for busy machines.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func established(t *testing.T, h *mptcp.Handle) map[string]int {
	t.Helper()
	connections, err := h.Connections()
	must(t, err)
	found := map[string]int{}
	for _, c := range connections {
		for _, s := range c.Subflows {
			if c.Token != 0 && s.Established {
				found[s.Local.Addr().String()]++
			}
		}
	}
	return found
}

func endpointsOf(t *testing.T, h *mptcp.Handle) (addresses []string) {
	t.Helper()
	known, err := h.Endpoints()
	must(t, err)
	for _, e := range known {
		addresses = append(addresses, e.Address.String())
	}
	return addresses
}

// settings returns everything that setup could change.
func settings(t *testing.T, host *lab.Host, h *mptcp.Handle) string {
	t.Helper()
	limits, err := h.Limits()
	must(t, err)
	return host.Run("sysctl", "net.mptcp") + fmt.Sprint(limits, endpointsOf(t, h))
}

func TestUndoKeepsTheLastPathOfALiveConnection(t *testing.T) {
	client, server := lab.Two(t)
	h, state := open(t, client.Path()), filepath.Join(t.TempDir(), "state.json")
	before := settings(t, client, h)
	server.Run("ip", "mptcp", "limits", "set", "subflow", "8")
	conn := client.Dial(server.Echo(lab.Service+":0"), "10.1.0.1")
	must(t, lab.Exchange(conn, 1000))
	_, err := tune.Apply(h, state, nil, nil, false)
	must(t, err)
	until(t, "a path from lte", func() bool { return established(t, h)["10.2.0.1"] == 1 })

	would, err := tune.Undo(h, state, true)
	if !errors.Is(err, tune.ErrStillUsed) {
		t.Fatalf("a dry run says %v", err)
	}
	steps, err := tune.Undo(h, state, false)
	if !errors.Is(err, tune.ErrStillUsed) || !strings.Contains(err.Error(), "endpoint 10.1.0.1 cannot go") {
		t.Fatalf("the error is %v, expected the remaining endpoint in it", err)
	}
	if fmt.Sprint(would) != fmt.Sprint(steps) {
		t.Errorf("a dry run says\n%v\nand what was done was\n%v", would, steps)
	}
	if !strings.Contains(fmt.Sprint(steps), "no other path is left to 1 connection") {
		t.Errorf("%v, expected why", steps)
	}
	if left := endpointsOf(t, h); len(left) != 1 || left[0] != "10.1.0.1" {
		t.Errorf("the endpoints %v are left, expected 10.1.0.1", left)
	}
	must(t, lab.Exchange(conn, 1000))
	if established(t, h)["10.1.0.1"] == 0 {
		t.Fatal("the connection has lost its path")
	}
	kept, err := os.ReadFile(state)
	must(t, err)
	if strings.Contains(string(kept), "stale_loss_cnt") || !strings.Contains(string(kept), "10.1.0.1") {
		t.Errorf("%s is kept, expected the endpoint alone", kept)
	}

	must(t, conn.Close())
	until(t, "the connection's end", func() bool { return len(established(t, h)) == 0 })
	_, err = tune.Undo(h, state, false)
	must(t, err)
	if after := settings(t, client, h); after != before {
		t.Errorf("left\n%s\nexpected\n%s", after, before)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, expected no state file any more", err)
	}
}

func TestUndoIgnoresConnectionsThatKeepAPath(t *testing.T) {
	client, server := lab.Two(t)
	client.Sysctl("mptcp/pm_type", "1")
	h, state := open(t, client.Path()), filepath.Join(t.TempDir(), "state.json")
	conn := client.Dial(server.Echo(lab.Service+":0"), "10.1.0.1")
	must(t, lab.Exchange(conn, 1000))
	_, err := tune.Apply(h, state, []string{"wifi"}, nil, false)
	must(t, err)
	_, err = tune.Undo(h, state, false)
	must(t, err)
	must(t, lab.Exchange(conn, 1000))
}

func TestDefaultStateDiffersForAReusedNamespaceInode(t *testing.T) {
	stateOf := map[uint64]string{} // by inode
	until(t, "a number of a namespace given again", func() bool {
		var file *os.File
		made := make(chan error)
		go func() { // its thread ends with it
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				file, err = os.Open("/proc/thread-self/ns/net")
			}
			made <- err
		}()
		must(t, <-made)
		defer file.Close()
		var status unix.Stat_t
		must(t, unix.Fstat(int(file.Fd()), &status))
		h, err := mptcp.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		must(t, err)
		defer h.Close()
		state, err := tune.DefaultState(h)
		must(t, err)
		earlier, again := stateOf[status.Ino]
		if earlier == state {
			t.Fatalf("%s is of two namespaces", state)
		}
		stateOf[status.Ino] = state
		return again
	})
}

func TestConcurrentSetupsAreUndoneTogether(t *testing.T) {
	client, _ := lab.Two(t)
	h, directory := open(t, client.Path()), t.TempDir()
	state := filepath.Join(directory, "state.json")
	before := settings(t, client, h)
	for range 30 {
		var both sync.WaitGroup
		for range 2 {
			other := open(t, client.Path())
			both.Add(1)
			go func() {
				defer both.Done()
				if _, err := tune.Apply(other, state, nil, nil, false); err != nil {
					t.Error(err)
				}
			}()
		}
		both.Wait()
		_, err := tune.Undo(h, state, false)
		must(t, err)
		if after := settings(t, client, h); after != before {
			t.Fatalf("left\n%s\nexpected\n%s", after, before)
		}
	}
}

func TestSetupOnAFullDiskChangesNothing(t *testing.T) {
	client, _ := lab.Two(t)
	h, disk := open(t, client.Path()), t.TempDir()
	must(t, unix.Mount("none", disk, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { must(t, unix.Unmount(disk, 0)) })
	must(t, os.WriteFile(filepath.Join(disk, "full"), make([]byte, 4096), 0o600))
	before := settings(t, client, h)
	_, err := tune.Apply(h, filepath.Join(disk, "state.json"), nil, nil, false)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v, expected that the disk is full", err)
	}
	if after := settings(t, client, h); after != before {
		t.Errorf("set\n%s\nexpected\n%s", after, before)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Errorf("%v %v, expected nothing beside what fills it", left, err)
	}
}

// rewritten returns the state file of a setup, modified.
func rewritten(t *testing.T, h *mptcp.Handle, rewrite func(state map[string]any)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.json")
	_, err := tune.Apply(h, path, []string{"wifi"}, nil, false)
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	_, err = tune.Undo(h, path, false)
	must(t, err)
	var state map[string]any
	must(t, json.Unmarshal(text, &state))
	rewrite(state)
	text, err = json.Marshal(state)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

func TestForeignStateFileIsRefused(t *testing.T) {
	client, _ := lab.Two(t)
	h, directory := open(t, client.Path()), t.TempDir()
	pipe, large := filepath.Join(directory, "pipe"), filepath.Join(directory, "large")
	must(t, unix.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(large, make([]byte, 2<<20), 0o600))
	change := func(name, was, is string) string {
		return rewritten(t, h, func(state map[string]any) {
			state["changes"] = []map[string]string{{"name": name, "was": was, "is": is}}
		})
	}
	for _, wrong := range []struct{ path, words string }{
		{directory, "no regular file"},
		{pipe, "no regular file"},
		{"/dev/zero", "no regular file"},
		{large, "at most"},
		{change("net.mptcp.close_timeout", "7", "60"), `"net.mptcp.close_timeout" is nothing that`},
		{change("net.mptcp.../ipv4/ip_forward", "1", "0"), "is nothing that"},
		{change("endpoint here", "absent", "subflow"), "no endpoint that"},
		{change("endpoint 10.1.0.1", "subflow", "absent"), "no endpoint that"},
		{change("limit of subflows beside the first", "many", "2"), `cannot have been "many"`},
		{rewritten(t, h, func(state map[string]any) { state["boot"] = "another" }), "earlier run"},
		{rewritten(t, h, func(state map[string]any) { state["namespace"] = 1 << 40 }), "another network namespace"},
	} {
		before := settings(t, client, h)
		_, undone := tune.Undo(h, wrong.path, false)
		_, applied := tune.Apply(h, wrong.path, nil, nil, false)
		for _, err := range []error{undone, applied} {
			if err == nil || !strings.Contains(err.Error(), wrong.words) {
				t.Errorf("%s: %v, expected %q in it", wrong.path, err, wrong.words)
			}
		}
		if after := settings(t, client, h); after != before {
			t.Fatalf("set\n%s\nexpected\n%s", after, before)
		}
	}
}
