// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/cgroupbpf"
	"bicast/internal/clock"
	"bicast/internal/lab"
)

const block = 8192

func blocksOrder(blockBytes, leaseMs uint32) *agentv1.Caps {
	return &agentv1.Caps{Sharers: 3, BlockBytes: blockBytes, LeaseMs: leaseMs}
}

func TestAllSocketsOfTheCgroupTakeBlocks(t *testing.T) {
	client, server := lab.Two(t)
	at := server.TCPEcho("10.1.0.2:7")
	looped, own := client.TCPEcho("127.0.0.1:7"), client.TCPEcho("10.1.0.1:7")
	cgroup := lab.Cgroup(t)
	below := filepath.Join(cgroup, "below")
	must(t, os.Mkdir(below, 0o755))
	t.Cleanup(func() { await(t, "it is empty", func() bool { return os.Remove(below) == nil }) })
	ours, deeper := newApplication(t, client, cgroup), newApplication(t, client, below)
	elsewhere := newApplication(t, server, cgroup)
	marksItself := ours.calls(at.String())
	set(t, marksItself, 4096)
	unmarked := map[string]*net.TCPConn{
		"one to the loopback":                    ours.calls(looped.String()),
		"one to an own address, by the loopback": ours.calls(own.String()),
		"one of another network namespace":       elsewhere.calls(own.String()),
		"one of another cgroup":                  outside(t, client, at.String()),
	}
	older := ours.calls(at.String())

	executor, stop := governing(t, client, aSocket(t), cgroup)
	must(t, executor.Order(blocksOrder(block, 10_000)))
	awaitMark(t, "an older socket", older, block)
	held := map[string]*net.TCPConn{
		"an older one": older, "a new one": ours.calls(at.String()), "one of a cgroup below": deeper.calls(at.String()),
	}
	unmarked["a new one to the loopback"] = ours.calls(looped.String())
	unmarked["a new one of another network namespace"] = elsewhere.calls(own.String())
	unmarked["a new one of another cgroup"] = outside(t, client, at.String())
	for what, conn := range held {
		if found := mark(t, conn); found != block {
			t.Errorf("%s has a mark of %d bytes, expected %d", what, found, block)
		}
	}
	for what, conn := range unmarked {
		if found := mark(t, conn); found != 0 {
			t.Errorf("%s has a mark of %d bytes, expected none", what, found)
		}
	}
	must(t, executor.Order(blocksOrder(65536, 10_000)))
	for what, conn := range held {
		awaitMark(t, what, conn, 65536)
	}
	stop()
	for what, conn := range held {
		if found := mark(t, conn); found != 0 {
			t.Errorf("%s has a mark of %d bytes after the end, expected none", what, found)
		}
	}
	if found := mark(t, marksItself); found != 4096 {
		t.Errorf("a mark that the application has set itself is %d bytes, expected 4096", found)
	}
	if there := count(t, cgroup); there != 0 {
		t.Errorf("%d programs are left at the cgroup", there)
	}
}

func TestSocketsAreUnchangedWithoutALease(t *testing.T) {
	client, server := lab.Two(t)
	cgroup := lab.Cgroup(t)
	conn := newApplication(t, client, cgroup).calls(server.TCPEcho("10.1.0.2:7").String())
	executor, _ := governing(t, client, aSocket(t), cgroup)
	must(t, executor.Order(blocksOrder(block, 4000)))
	awaitMark(t, "an older socket", conn, block)
	awaitMark(t, "the same socket after the lease", conn, 0)
}

func TestUnsentDataIsLimitedToABlock(t *testing.T) {
	client, server := lab.Two(t)
	// Nothing accepts: the receive window fills, and the client keeps unsent data.
	var listener net.Listener
	server.Do(func() (err error) {
		listener, err = net.Listen("tcp", "10.1.0.2:9")
		return err
	})
	t.Cleanup(func() { listener.Close() })
	cgroup := lab.Cgroup(t)
	executor, _ := governing(t, client, aSocket(t), cgroup)
	must(t, executor.Order(blocksOrder(block, 10_000)))
	await(t, "the program is attached", func() bool { return count(t, cgroup) == 1 })
	app := newApplication(t, client, cgroup)
	held, free := app.calls(listener.Addr().String()), outside(t, client, listener.Addr().String())
	for _, conn := range []*net.TCPConn{held, free} {
		go conn.Write(make([]byte, 64<<20)) // ends when the test closes the connection
	}
	const segment = 65536 // the kernel checks the limit again after this many bytes
	await(t, "unsent data piles up without a block", func() bool { return unsent(t, free) >= 4*(block+segment) })
	await(t, "the socket with a block holds unsent data", func() bool { return unsent(t, held) > 0 })
	if found := unsent(t, held); found > block+segment {
		t.Errorf("%d bytes are unsent, expected at most %d", found, block+segment)
	}
}

func TestLeaseOfAKilledAgentEndsOnLiveSockets(t *testing.T) {
	h := newHeld(t, 4000)
	younger := h.application.calls(h.to)
	kill(h.agent)
	for what, conn := range map[string]*net.TCPConn{"an older one": h.conn, "a younger one": younger} {
		await(t, what+" loses its mark when data flows", func() bool {
			must(t, lab.Exchange(conn, 1000))
			return mark(t, conn) == 0
		})
	}
}

func TestNextAgentTakesOverAKilledAgentsSockets(t *testing.T) {
	h := newHeld(t, 10_000)
	kill(h.agent)
	if there := count(t, h.cgroup); there != 1 {
		t.Fatalf("%d programs are attached to the cgroup of a killed agent, expected its own", there)
	}
	executor, stop := governing(t, h.client, h.socket, h.cgroup)
	awaitMark(t, "a socket without an order", h.conn, 0)
	must(t, executor.Order(blocksOrder(65536, 10_000)))
	awaitMark(t, "a socket with a new order", h.conn, 65536)
	if there := count(t, h.cgroup); there != 1 {
		t.Errorf("%d programs are attached to the cgroup, expected one", there)
	}
	stop()
	if there := count(t, h.cgroup); there != 0 {
		t.Errorf("%d programs are left at the cgroup", there)
	}
}

func TestLeftoverOfAnotherNamespaceIsNotTakenOver(t *testing.T) {
	h := newHeld(t, 4000)
	kill(h.agent)
	executor, stop := governing(t, h.server, h.socket, h.cgroup)
	must(t, executor.Order(blocksOrder(65536, 10_000)))
	next := newApplication(t, h.server, h.cgroup).calls(h.client.TCPEcho("10.1.0.1:7").String())
	awaitMark(t, "a socket of the next agent", next, 65536)
	if there := count(t, h.cgroup); there != 2 {
		t.Errorf("%d programs are attached to the cgroup, expected those of the killed agent and the next one", there)
	}
	await(t, "the killed agent's program removes its marks after the lease", func() bool {
		must(t, lab.Exchange(h.conn, 1000))
		return mark(t, h.conn) == 0
	})
	stop()
	if there := count(t, h.cgroup); there != 1 {
		t.Errorf("%d programs are left at the cgroup, expected that of the killed agent", there)
	}
}

func TestLeftoverOfAnotherVersionStays(t *testing.T) {
	client, cgroup := lab.One(t), lab.Cgroup(t)
	const clone = 1 << 9 // BPF_F_CLONE
	left := &program{within: client.Try}
	must(t, left.open(cgroup))
	spec, err := specification()
	must(t, err)
	spec.Maps[heldMap].Flags |= clone
	must(t, spec.LoadAndAssign(&left.objects, nil))
	left.settings.LeaseUntilNS = uint64(clock.Monotonic())
	must(t, left.objects.Order.Put(uint32(0), left.settings))
	must(t, cgroupbpf.Attach(left.directory, left.objects.AtCgroup))
	must(t, left.unload())
	_, stop := governing(t, client, aSocket(t), cgroup)
	await(t, "both programs are attached", func() bool { return count(t, cgroup) == 2 })
	stop()
	if there := count(t, cgroup); there != 1 {
		t.Errorf("%d programs are left at the cgroup, expected that of the other version", there)
	}
	if gone := release(t, client); gone != 0 {
		t.Errorf("%d programs are detached, expected that of the other version to stay", gone)
	}
}

func TestSecondAgentIsRefusedTheCgroup(t *testing.T) {
	host, cgroup := lab.One(t), lab.Cgroup(t)
	_, stop := governing(t, host, aSocket(t), cgroup)
	await(t, "the program is attached", func() bool { return count(t, cgroup) == 1 })
	log := &lines{}
	second := NewExecutor(aSocket(t), host.Try, slog.New(slog.NewTextHandler(log, nil)))
	second.Govern(cgroup)
	endSecond := running(t, second)
	await(t, "the second says why", func() bool { return log.have("limits the blocks of " + cgroup) })
	endSecond()
	if there := count(t, cgroup); there != 1 {
		t.Errorf("%d programs are attached to the cgroup, expected one", there)
	}
	stop()
}

func TestForeignFileLockDoesNotBlockAnAgent(t *testing.T) {
	host, cgroup := lab.One(t), lab.Cgroup(t)
	if err := os.Chmod(cgroup, 0o755); err != nil { // as cgroups have
		t.Fatal(err)
	}
	host.Squat(nil, []string{cgroup})
	governing(t, host, aSocket(t), cgroup)
	await(t, "the program is attached", func() bool { return count(t, cgroup) == 1 })
}

func TestGovernFailsForADirectoryThatIsNoCgroup(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/nowhere"} {
		log := &lines{}
		executor := NewExecutor(aSocket(t), here, slog.New(slog.NewTextHandler(log, nil)))
		executor.Govern(path)
		running(t, executor)
		await(t, "it says why", func() bool { return log.have("cgroup="+path) && log.have("reason=") })
	}
}

// outside connects from the test process, which is in none of our cgroups.
func outside(t testing.TB, host *lab.Host, to string) *net.TCPConn {
	t.Helper()
	var conn net.Conn
	host.Do(func() (err error) {
		conn, err = net.Dial("tcp", to)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func set(t testing.TB, conn *net.TCPConn, bytes int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	}))
	must(t, err)
}

func unsent(t testing.TB, conn *net.TCPConn) (bytes int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }))
	must(t, err)
	return bytes
}

func count(t testing.TB, cgroup string) int {
	t.Helper()
	directory, err := os.Open(cgroup)
	must(t, err)
	defer directory.Close()
	there, err := link.QueryPrograms(link.QueryOptions{Target: int(directory.Fd()), Attach: ebpf.AttachCGroupSockOps})
	must(t, err)
	return len(there.Programs)
}
