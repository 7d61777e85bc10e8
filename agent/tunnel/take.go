package tunnel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// claimed is a name in a network namespace that one process has, and that is free again when that ends, in whatever way.
const claimed = "@bicast-tunnels"

// errTaken is why an agent touches nothing: devices, and the table of nft, are another one's.
var errTaken = errors.New("another agent has tunnels in this network namespace")

// claim lets no other agent have tunnels whose packets leave by this namespace, until it is closed.
func claim(outside func(func() error) error) (io.Closer, error) {
	var claim net.Listener
	err := outside(func() (err error) {
		claim, err = net.Listen("unix", claimed)
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("%w%s: end that one, or let each run in a network namespace of its own", errTaken, holder())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("no tunnels can be had here: %w", err)
	}
	return claim, nil
}

// holder is who has the claim, as far as one may know.
func holder() string {
	conn, err := net.Dial("unix", claimed)
	if err != nil {
		return ""
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return ""
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}) != nil || err != nil || peer.Pid == 0 { // 0: of a PID namespace that we do not see
		return ""
	}
	return fmt.Sprintf(" (process %d)", peer.Pid)
}

// take is what is needed before there is any tunnel.
func (h *Hand) take() error {
	claim, err := claim(h.outside)
	if err != nil {
		return err
	}
	kernel, err := openKernel(h.outside, h.inside)
	if err != nil {
		return errors.Join(err, claim.Close())
	}
	unwatch, err := watch(h.outside, func() {
		select {
		case h.stirred <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return errors.Join(err, kernel.close(), claim.Close())
	}
	begun := time.Now()
	h.release = func() error { return errors.Join(unwatch(), kernel.close(), claim.Close()) }
	h.host = &surroundings{
		kernel: kernel, pins: pins{h.outside}, outside: h.outside, inside: h.inside, looks: h.looks,
		now: func() time.Duration { return time.Since(begun) },
	}
	return nil
}

// let takes everything away, also what an agent left that was killed; but nothing of one that lives.
func (h *Hand) let() error {
	if h.host == nil {
		if err := h.take(); errors.Is(err, errTaken) {
			return nil
		} else if err != nil {
			return err
		}
	}
	var failures []error
	for name, t := range h.tunnels {
		failures = append(failures, t.finish())
		delete(h.tunnels, name)
	}
	failures = append(failures, h.removeAllBut(nil))
	if h.host.pins.stand() {
		failures = append(failures, h.host.pins.remove())
	}
	failures = append(failures, h.release())
	h.order, h.host, h.release, h.strangers, h.fitted = nil, nil, nil, nil, 0
	h.fitter.Fit(nil, 0)
	return errors.Join(failures...)
}
