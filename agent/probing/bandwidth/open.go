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
	openTimeout       = 5 * time.Second
	openRetryInterval = 200 * time.Millisecond
)

// open proves our address to the peer.
func (p *Prober) open(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.socket.Close)()
	until := time.Now().Add(openTimeout)
	ours := handshake{session: p.session}
	for buffer := make([]byte, 1<<16); time.Now().Before(until); {
		ours.ticket = max(ours.ticket+1, uint64(max(0, time.Now().UnixNano())))
		if _, err := p.socket.Write(ours.seal(&p.key, kindOpening)); err != nil {
			return p.unreachable(err)
		}
		n, opened, err := p.awaitOpening(buffer)
		switch {
		case opened:
			return nil
		case err == nil:
			ours.nonce = n
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return p.unreachable(err)
		}
	}
	return fmt.Errorf("no answer from %v: run `bicast-agent reflect` there with the same key, and check that no other prober uses it", p.to)
}

func (p *Prober) unreachable(err error) error {
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("nobody listens at %v (connection refused): start `bicast-agent reflect` there", p.to)
	}
	if errors.Is(err, net.ErrClosed) {
		return errors.New("the probe was ended before the peer answered")
	}
	return fmt.Errorf("cannot probe %v: %w", p.to, err)
}

// awaitOpening waits for the peer's reply to an opening.
func (p *Prober) awaitOpening(buffer []byte) (given nonce, opened bool, err error) {
	for until := time.Now().Add(openRetryInterval); ; {
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
		if theirs, right := openHandshake(&p.key, kindChallenge, b); right && theirs.session == p.session {
			return theirs.nonce, false, nil
		}
	}
}
