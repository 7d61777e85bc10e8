// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that has sent nothing takes another path. Others are reset, because the server may have received their data.
func TestConnectionsWaitingForASilentRelayAreRerouted(t *testing.T) { goesSilent(t) }

func TestTimedWaitForASilentRelayIsAtMost5s(t *testing.T) {
	const soon = 5 * time.Second // a dead relay is detected after 3 s
	if took := goesSilent(t); took > soon {
		t.Fatalf("that took %v, expected no more than %v", took, soon)
	}
}

// goesSilent freezes a relay, and returns how long its terminals waited.
func goesSilent(t *testing.T) (took time.Duration) {
	r := newRoad(t)
	r.serves("80", nothing)
	r.relays()
	r.takes("direct", r.home())
	r.expectRelayed(server4, "80")
	r.freeze(r.relaying)
	began := time.Now()
	told := make(chan error, 1)
	speaks, err := r.dial(server4, "80")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		speaks.Write([]byte("x"))
		_, err := speaks.Read(make([]byte, 1))
		told <- err
	}()
	r.expect(server4, "80", terminal4)
	if err := <-told; !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("a connection that has sent data reads %v, expected a reset", err)
	}
	took = time.Since(began)
	r.relaying.Process.Signal(unix.SIGCONT)
	r.expectRelayed(server4, "80")
	return took
}

// freeze stops an agent and waits until all its threads have stopped: on a busy host a thread may run until it gets the signal.
func (r *road) freeze(agent *exec.Cmd) {
	r.t.Helper()
	agent.Process.Signal(unix.SIGSTOP)
	for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", agent.Process.Pid))
		if err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(stat string) bool {
			line, err := os.ReadFile(stat)
			_, after, _ := strings.Cut(string(line), ") ")
			return err == nil && !strings.HasPrefix(after, "T")
		}) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("process %d does not stop", agent.Process.Pid)
		}
	}
}

func TestConnectionsOfAKilledRelayAreResetAndNewOnesRerouted(t *testing.T) { losesItsRelay(t) }

func TestTimedConnectionsOfAKilledRelayAreResetWithin1s(t *testing.T) {
	const atOnce = time.Second
	if took := losesItsRelay(t); took > atOnce {
		t.Fatalf("that took %v, expected no more than %v", took, atOnce)
	}
}

// losesItsRelay kills a relay that carries twenty connections, and returns how long it took until all were reset.
func losesItsRelay(t *testing.T) time.Duration {
	r := newRoad(t)
	r.serves("80", echo)
	r.relays()
	r.takes("direct", r.home())
	r.expectRelayed(server4, "80")
	var live []*net.TCPConn
	for range 20 {
		conn, _ := r.opened(server4, "80")
		live = append(live, conn)
	}
	r.end(r.relaying, os.Kill)
	killed := time.Now()
	r.expect(server4, "80", terminal4)
	for _, conn := range live {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Fatalf("a relayed connection reads %v, expected a reset", err)
		}
	}
	return time.Since(killed)
}
