// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkHandshakeFlood sends one end handshakes, and prints the processor time of both ends, without the sender's.
//
// A stranger who knows no key sends forged ones. One who has seen a handshake on the way repeats it, and the end has to
// decrypt it, until it answers with a cookie instead.
func BenchmarkHandshakeFlood(b *testing.B) {
	w := newWorld(b, false)
	seen := make(chan []byte)
	go func() { seen <- w.capture(initiation, 1)[0] }()
	w.begin()
	repeated := <-seen
	forged := bytes.Repeat([]byte{1}, len(repeated))
	copy(forged, repeated[:4])
	for _, flood := range []struct {
		name    string
		message []byte
		rate    int // a second; 0: as fast as the sender can
	}{
		{"none", nil, 0}, {"forged 10000", forged, 10_000}, {"repeated 10000", repeated, 10_000},
		{"forged unlimited", forged, 0}, {"repeated unlimited", repeated, 0},
	} {
		b.Run(flood.name, func(b *testing.B) {
			w.await("packets go through", func() bool { return w.ping(100) })
			lost := w.losing(time.Duration(b.N) * time.Second)
			begun, before := time.Now(), processorTime(b, unix.RUSAGE_SELF)
			sent, sender := w.flood(b, flood.message, flood.rate, begun.Add(time.Duration(b.N)*time.Second))
			took := time.Since(begun)
			used := processorTime(b, unix.RUSAGE_SELF) - before - sender
			b.ReportMetric(100*used.Seconds()/took.Seconds(), "core-%")
			b.ReportMetric(float64(sent)/took.Seconds(), "sent/s")
			b.ReportMetric(float64(<-lost), "lost-%")
		})
	}
}

// flood sends a message from the NAT's host until a time. It returns how often, and the sender's processor time.
func (w *world) flood(b *testing.B, message []byte, rate int, until time.Time) (sent int, used time.Duration) {
	if message == nil {
		time.Sleep(time.Until(until))
		return 0, 0
	}
	w.nat.Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort("203.0.113.9", strconv.Itoa(udpPort)))
		if err != nil {
			return err
		}
		defer conn.Close()
		begun, before := time.Now(), processorTime(b, unix.RUSAGE_THREAD)
		for time.Now().Before(until) {
			if due := time.Duration(sent) * time.Second / time.Duration(max(rate, 1)); rate > 0 && time.Since(begun) < due {
				time.Sleep(due - time.Since(begun))
			}
			if _, err := conn.Write(message); err != nil {
				return err
			}
			sent++
		}
		used = processorTime(b, unix.RUSAGE_THREAD) - before
		return nil
	})
	return sent, used
}

func processorTime(b *testing.B, who int) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(who, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
