// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// answers tells the senders of dropped packets the path MTU, through the port where the packet arrived.
type answers struct {
	told   *ringbuf.Reader
	socket int
	done   chan struct{}
}

// newAnswers opens its sockets in the calling thread's network namespace, that of the ports.
func newAnswers(told *ebpf.Map, log *slog.Logger) (*answers, error) {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, fmt.Errorf("cannot open a socket for answers to terminals (needs CAP_NET_RAW): %w", err)
	}
	reader, err := ringbuf.NewReader(told)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read the ring buffer of dropped packets: %w", err), unix.Close(socket))
	}
	a := &answers{told: reader, socket: socket, done: make(chan struct{})}
	go a.run(log)
	return a, nil
}

func (a *answers) run(log *slog.Logger) {
	defer close(a.done)
	var record ringbuf.Record
	for {
		err := a.told.ReadInto(&record)
		switch {
		case errors.Is(err, ringbuf.ErrClosed):
			return
		case err != nil:
			log.Error("cannot send Packet Too Big answers to terminals any more", "reason", err)
			return
		}
		device, answer := answerTo(record.RawSample)
		if err := unix.Sendto(a.socket, answer, 0, &unix.SockaddrLinklayer{Ifindex: device}); err != nil {
			log.Debug("cannot send a Packet Too Big answer to a terminal", "device", device, "reason", err) // counts as lost; the next packet is answered again
		}
	}
}

// answerTo parses struct told of bpf/terminal_port.h.
func answerTo(told []byte) (device int, answer []byte) {
	largest := int(binary.NativeEndian.Uint32(told[4:]))
	bytes := binary.NativeEndian.Uint32(told[8:])
	return int(binary.NativeEndian.Uint32(told)), tooLong(told[12:12+bytes], largest)
}

func (a *answers) close() error {
	err := a.told.Close()
	<-a.done
	return errors.Join(err, unix.Close(a.socket))
}
