// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

const (
	measured  = 2 * time.Second
	unbounded = 1 << 20 // segments, more than are ever in flight
)

// BenchmarkCost measures the programs' share of one processor under full load, with the kernel's run time counters. Two goodputs
// differ by more than that share.
func BenchmarkCost(b *testing.B) {
	account, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	defer account.Close()
	for _, c := range []struct {
		name   string
		capped string
		work   func(*testing.B, *lab.Host, net.Addr)
	}{
		{"an upload beside a cap", nearLTE, stream},
		{"an upload under a cap", near, stream},
		{"connections beside a cap", nearLTE, connections},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, server := lab.Two(b)
			executor := NewExecutor(client.Try, slog.New(slog.DiscardHandler))
			ctx, end := context.WithCancel(context.Background())
			defer end()
			go executor.Run(ctx)
			listener := sink(b, server)
			spent, began := accountOf(b), time.Now()
			for range b.N {
				if _, err := executor.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(c.capped, "10.1.0.2", 0, unbounded)}, LeaseMs: lease}); err != nil {
					b.Fatal(err)
				}
				c.work(b, client, listener.Addr())
			}
			took, after := time.Since(began), accountOf(b)
			for _, kind := range []ebpf.ProgramType{ebpf.SockOps, ebpf.StructOps} {
				b.ReportMetric(100*(after[kind]-spent[kind]).Seconds()/took.Seconds(), kind.String()+"-%")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// accountOf returns the total run time of the programs by type.
func accountOf(b *testing.B) map[ebpf.ProgramType]time.Duration {
	b.Helper()
	account := map[ebpf.ProgramType]time.Duration{}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		program, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // unloaded meanwhile
		}
		stats, err := program.Stats()
		if err != nil {
			b.Fatal(err)
		}
		account[program.Type()] += stats.Runtime
		program.Close()
	}
	return account
}

func sink(b *testing.B, server *lab.Host) net.Listener {
	b.Helper()
	var listener net.Listener
	server.Do(func() (err error) {
		listener, err = net.Listen("tcp", "10.1.0.2:0")
		return err
	})
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			taken, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, taken)
				taken.Close()
			}()
		}
	}()
	return listener
}

func dial(b *testing.B, client *lab.Host, to net.Addr) *net.TCPConn {
	b.Helper()
	var conn net.Conn
	client.Do(func() (err error) {
		conn, err = net.Dial("tcp", to.String())
		return err
	})
	return conn.(*net.TCPConn)
}

// stream sends as fast as possible.
func stream(b *testing.B, client *lab.Host, to net.Addr) {
	conn := dial(b, client, to)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(measured))
	for block := make([]byte, 1<<16); ; {
		if _, err := conn.Write(block); err != nil {
			return
		}
	}
}

// connections opens connections as fast as possible. It resets them, or the ports would run out.
func connections(b *testing.B, client *lab.Host, to net.Addr) {
	client.Do(func() error {
		for end := time.Now().Add(measured); time.Now().Before(end); {
			conn, err := net.Dial("tcp", to.String())
			if err != nil {
				return err
			}
			conn.Write([]byte{1})
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
		return nil
	})
}
