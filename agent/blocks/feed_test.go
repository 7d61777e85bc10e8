// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

type report struct {
	Sharers    uint32 `json:"sharers"`
	BlockBytes uint32 `json:"block_bytes"`
	ValidMs    int64  `json:"valid_ms"`
}

// subscriber is a local program that reads the feed.
type subscriber struct {
	t     *testing.T
	lines *bufio.Scanner
}

func connect(t *testing.T, socket string) net.Conn {
	t.Helper()
	var conn net.Conn
	await(t, "somebody serves "+socket, func() (there bool) {
		var err error
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

func subscribe(t *testing.T, socket string) subscriber {
	t.Helper()
	conn := connect(t, socket)
	must(t, conn.SetReadDeadline(time.Now().Add(soon)))
	return subscriber{t, bufio.NewScanner(conn)}
}

func (l subscriber) receive() (line report) {
	l.t.Helper()
	if !l.lines.Scan() {
		l.t.Fatalf("no line came: %v", l.lines.Err())
	}
	must(l.t, json.Unmarshal(l.lines.Bytes(), &line))
	return line
}

func serving(t *testing.T) (*Executor, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "made", "sharers")
	executor := NewExecutor(socket, here, discard())
	running(t, executor)
	return executor, socket
}

func TestFeedStreamsTheStateAndEveryChange(t *testing.T) {
	executor, socket := serving(t)
	one := subscribe(t, socket)
	if line := one.receive(); line != (report{}) {
		t.Errorf("the first line is %+v, expected an empty report before the first order", line)
	}
	must(t, executor.Order(&agentv1.Caps{Sharers: 3, BlockBytes: 8192, LeaseMs: 9000}))
	other := one
	for number := range 2 {
		if line := other.receive(); line.Sharers != 3 || line.BlockBytes != 8192 || line.ValidMs <= 0 || line.ValidMs > 9000 {
			t.Errorf("subscriber %d receives %+v, expected 3 sharers, 8192 bytes and at most 9000 ms", number, line)
		}
		other = subscribe(t, socket)
	}
	must(t, executor.Order(&agentv1.Caps{Sharers: 3, BlockBytes: 8192, LeaseMs: 10_000})) // renewal without news
	must(t, executor.Order(&agentv1.Caps{Sharers: 2, BlockBytes: 65536, LeaseMs: 9000}))
	if line := one.receive(); line.Sharers != 2 || line.BlockBytes != 65536 {
		t.Errorf("the feed sends %+v, expected 2 sharers and 65536 bytes", line)
	}
	must(t, executor.Order(&agentv1.Caps{}))
	if line := one.receive(); line != (report{}) {
		t.Errorf("%+v is sent without an order", line)
	}
	status, err := os.Stat(socket)
	must(t, err)
	if status.Mode().Perm() != 0o666 {
		t.Errorf("the socket has the mode %v, expected everybody to be able to connect", status.Mode())
	}
}

func TestNumberIsUnknownAfterTheLease(t *testing.T) {
	executor, socket := serving(t)
	one := subscribe(t, socket)
	one.receive()
	began := time.Now()
	must(t, executor.Order(&agentv1.Caps{Sharers: 3, BlockBytes: 8192, LeaseMs: 500}))
	one.receive()
	if line := one.receive(); line != (report{}) || time.Since(began) < 400*time.Millisecond {
		t.Errorf("the feed sends %+v after %v, expected an empty report when the lease of 500 ms ends", line, time.Since(began))
	}
}

func TestRefusedOrderChangesNothing(t *testing.T) {
	executor, _ := serving(t)
	must(t, executor.Order(blocksOrder(8192, 10_000)))
	for _, absurd := range []*agentv1.Caps{blocksOrder(8192, 0), blocksOrder(8192, 499), blocksOrder(8192, 10_001), blocksOrder(maxBlock+1, 3000)} {
		if err := executor.Order(absurd); err == nil {
			t.Errorf("the executor accepts the order %v", absurd)
		}
	}
	if news := executor.current(); news.Sharers != 3 || news.BlockBytes != 8192 {
		t.Errorf("the state is %+v after refused orders", news)
	}
}

func TestBadClientsDoNotDisturbOthers(t *testing.T) {
	executor, socket := serving(t)
	honest := subscribe(t, socket)
	honest.receive()
	silent := connect(t, socket) // never reads
	talking := connect(t, socket)
	_, err := talking.Write([]byte("GET / HTTP/1.1\r\n"))
	must(t, err)
	for range 200 { // more than the limit of one process
		connect(t, socket)
	}
	if hasRoom := attended(executor); hasRoom > maxPerProcess {
		t.Errorf("%d are attended, expected at most %d of one process", hasRoom, maxPerProcess)
	}
	await(t, "a client that sends is disconnected", func() bool {
		talking.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.Copy(io.Discard, talking)
		return err == nil || !os.IsTimeout(err)
	})
	// Publish until the buffer of the client that never reads is full. The honest client receives each change.
	for number := uint32(1); attended(executor) > 1; number++ {
		executor.feed.publish(News{Sharers: number, Until: time.Now().Add(time.Hour)})
		if line := honest.receive(); line.Sharers != number {
			t.Fatalf("the feed sends %d sharers, expected %d", line.Sharers, number)
		}
		if number > 100_000 {
			t.Fatal("a client that never reads stays connected")
		}
	}
	silent.Close()
}

func attended(executor *Executor) int {
	executor.feed.mutex.Lock()
	defer executor.feed.mutex.Unlock()
	return len(executor.feed.clients)
}

func TestFeedReplacesTheSocketOfAKilledAgent(t *testing.T) {
	host := lab.One(t)
	socket := filepath.Join(t.TempDir(), "sharers")
	process := agent(t, host, socket, "", blocksOrder(8192, 10_000))
	if one := subscribe(t, socket); one.receive().ValidMs == 0 {
		one.receive() // the subscription may precede the order
	}
	log := &lines{}
	second := NewExecutor(socket, here, slog.New(slog.NewTextHandler(log, nil)))
	endSecond := running(t, second)
	it := fmt.Sprintf("process %d already serves", process.Process.Pid)
	await(t, "the second agent names the first", func() bool { return log.have(it) })
	endSecond()
	kill(process)
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("a killed agent leaves its socket: %v", err)
	}
	executor := NewExecutor(socket, here, discard())
	must(t, executor.Order(&agentv1.Caps{Sharers: 1, LeaseMs: 10_000}))
	stop := running(t, executor)
	var line report
	await(t, "the next one serves", func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		defer conn.Close()
		return json.NewDecoder(conn).Decode(&line) == nil && line.Sharers == 1
	})
	stop()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestFeedKeepsAFileThatIsNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sharers")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	log := &lines{}
	running(t, NewExecutor(path, here, slog.New(slog.NewTextHandler(log, nil))))
	await(t, "it says why", func() bool { return log.have("exists and is not a socket") })
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "mine" {
		t.Errorf("%q, %v", kept, err)
	}
}
