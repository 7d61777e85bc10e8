// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const noticeWithin = 60 * time.Second

// systemd opens a socket where systemd's notices come, and announces it with a watchdog interval in the environment.
func systemd(t *testing.T, interval time.Duration) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(interval.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", "")
	return socket
}

func notice(t *testing.T, socket *net.UnixConn) string {
	t.Helper()
	buffer := make([]byte, 100)
	socket.SetReadDeadline(time.Now().Add(noticeWithin))
	n, err := socket.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func TestSuperviseNotifiesReadyThenAlive(t *testing.T) {
	socket := systemd(t, 3*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var asked int
	go func() {
		defer close(ended)
		supervise(ctx, func() { asked++ }, slog.New(slog.DiscardHandler))
	}()
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := notice(t, socket); got != want {
			t.Errorf("systemd received %q, expected %q", got, want)
		}
	}
	stop()
	<-ended
	if asked < 2 {
		t.Errorf("supervise sent 2 notices after %d checks", asked)
	}
}

func TestSuperviseIsSilentWhileTheAgentHangs(t *testing.T) {
	socket := systemd(t, 3*time.Millisecond)
	hung, over := make(chan struct{}, 1), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		supervise(ctx, func() { hung <- struct{}{}; <-over; stop() }, slog.New(slog.DiscardHandler))
	}()
	<-hung
	notice(t, socket) // READY
	socket.SetReadDeadline(time.Now())
	if n, err := socket.Read(make([]byte, 100)); err == nil {
		t.Errorf("systemd received %d bytes from an agent that hangs", n)
	}
	close(over)
	<-ended
	if got := notice(t, socket); got != "WATCHDOG=1" {
		t.Errorf("systemd received %q, expected a notice after the hang", got)
	}
}
