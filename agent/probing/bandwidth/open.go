// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/timestamping"
)

const (
	opensWithin = 5 * time.Second
	knocksEvery = 200 * time.Millisecond
)

// open proves to the far end that we are where we say.
func (p *Prober) open(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.socket.Close)()
	until := time.Now().Add(opensWithin)
	ours := knock{session: p.session}
	for buffer := make([]byte, 1<<16); time.Now().Before(until); {
		ours.ticket = max(ours.ticket+1, uint64(max(0, time.Now().UnixNano())))
		if _, err := p.socket.Write(ours.seal(&p.key, opens)); err != nil {
			return p.unreachable(err)
		}
		n, opened, err := p.knocked(buffer)
		switch {
		case opened:
			return nil
		case err == nil:
			ours.nonce = n
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return p.unreachable(err)
		}
	}
	return fmt.Errorf("nobody answers at %v: is `bicast-agent reflect` there, with the same key, and in nobody else's use?", p.to)
}

func (p *Prober) unreachable(err error) error {
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("nobody listens at %v (connection refused): start `bicast-agent reflect` there", p.to)
	}
	if errors.Is(err, net.ErrClosed) {
		return errors.New("it was ended before the far end answered")
	}
	return fmt.Errorf("%v cannot be probed: %w", p.to, err)
}

// knocked awaits what the far end says to an opening.
func (p *Prober) knocked(buffer []byte) (given nonce, opened bool, err error) {
	for until := time.Now().Add(knocksEvery); ; {
		event, err := p.socket.Next(buffer, until)
		if err != nil {
			return given, false, err
		}
		if event.Moment != timestamping.Arrived || event.Length > len(buffer) {
			continue
		}
		b := buffer[:event.Length]
		if a, right := openAnswer(&p.key, b); right && a.head == (head{session: p.session}) {
			return given, true, nil
		}
		if theirs, right := openKnock(&p.key, challenges, b); right && theirs.session == p.session {
			return theirs.nonce, false, nil
		}
	}
}
