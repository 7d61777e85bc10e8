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

// answers tell the senders of what was dropped how long their packets may be, by the ports where these came in.
type answers struct {
	told   *ringbuf.Reader
	socket int
	done   chan struct{}
}

// newAnswers is called in the namespace of the ports.
func newAnswers(told *ebpf.Map, log *slog.Logger) (*answers, error) {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // of no protocol: it gets nothing
	if err != nil {
		return nil, fmt.Errorf("no answers can be sent to terminals (CAP_NET_RAW is wanted): %w", err)
	}
	reader, err := ringbuf.NewReader(told)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("what is to be answered cannot be read: %w", err), unix.Close(socket))
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
			log.Error("nobody is told any more how long packets may be", "because", err)
			return
		}
		device, answer := answerTo(record.RawSample)
		if err := unix.Sendto(a.socket, answer, 0, &unix.SockaddrLinklayer{Ifindex: device}); err != nil {
			log.Debug("an answer was lost", "device", device, "because", err) // as any packet may be; the next one is answered again
		}
	}
}

// answerTo reads struct told of bpf/terminal_port.h.
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
