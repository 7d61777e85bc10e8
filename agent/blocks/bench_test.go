// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"bicast/internal/lab"
)

// BenchmarkGoodput compares writes of 1 MB over an unlimited path with and without blocks.
func BenchmarkGoodput(b *testing.B) {
	for _, block := range []uint32{0, 256 << 10, 16 << 10, 8 << 10} {
		b.Run(fmt.Sprintf("block=%d", block), func(b *testing.B) {
			client, server := lab.Two(b)
			to := sink(server)
			cgroup := lab.Cgroup(b)
			executor := NewExecutor(filepath.Join(b.TempDir(), "sharers"), client.Try, discard())
			if block > 0 {
				executor.Govern(cgroup)
			}
			running(b, executor)
			must(b, executor.Order(blocksOrder(block, 10_000)))
			conn := newApplication(b, client, cgroup).calls(to)
			awaitMark(b, "the socket", conn, int(block))
			write := make([]byte, 1<<20)
			b.SetBytes(int64(len(write)))
			b.ResetTimer()
			for range b.N {
				if _, err := conn.Write(write); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// sink discards everything it receives.
func sink(host *lab.Host) string {
	return host.Serve("10.1.0.2:9", false, func(conn *net.TCPConn) { io.Copy(io.Discard, conn) }).String()
}
