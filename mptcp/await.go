// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// The kernel reports a subflow as established at the SYN-ACK. A peer beyond its limits resets it one round trip later;
// no event confirms that it did not. So await polls the subflow.
const (
	pollInterval     = 5 * time.Millisecond
	lostPollInterval = 50 * time.Millisecond
	acceptTimeout    = time.Second // then a live subflow counts: old kernels lack the flag, or an ACK is lost
)

// await returns the event of an established subflow once the peer has accepted it, or the reason for its failure.
func (h *Handle) await(
	ctx context.Context, events <-chan Event, c Connection, local netip.Addr, remote netip.AddrPort,
) (Event, error) {
	var established Event
	var look, late <-chan time.Time
	lost := false // the kernel dropped events: poll instead
	for {
		select {
		case event, more := <-events:
			ours := more && event.Token == c.Token && event.Local.Addr() == local && event.Remote == remote
			switch {
			case more && event.Kind == 0 && !lost:
				lost = true
				if look == nil {
					ticker := time.NewTicker(lostPollInterval)
					defer ticker.Stop()
					look = ticker.C
				}
			case !more:
				return Event{}, notEstablished(c, local, remote, endReason(ctx), nil)
			case event.Token == c.Token && event.Kind == ConnectionClosed:
				return Event{}, &Error{Kind: Gone, What: fmt.Sprintf("%v has ended", c), Advice: "list again"}
			case ours && event.Kind == SubflowClosed:
				return Event{}, notEstablished(c, local, remote, closeReason(event), cause(event))
			case ours && event.Kind == SubflowEstablished:
				ticker := time.NewTicker(pollInterval)
				defer ticker.Stop()
				established, look, late = event, ticker.C, time.After(acceptTimeout)
			}
		case <-look:
			now, err := h.findAwaited(c, established, local, remote)
			switch {
			case err != nil:
				return established, err
			case now != nil && now.accepted:
				return Event{Kind: SubflowEstablished, Token: c.Token, Local: now.Local, Remote: now.Remote}, nil
			case now != nil && now.Established && late == nil:
				late = time.After(acceptTimeout)
				established = Event{Kind: SubflowEstablished, Token: c.Token, Local: now.Local, Remote: now.Remote}
			case now == nil && lost && late != nil: // the event with the reason is lost
				return Event{}, notEstablished(c, local, remote, "it was closed", nil)
			}
		case <-late:
			return established, nil
		case <-ctx.Done():
			return Event{}, notEstablished(c, local, remote, endReason(ctx), nil)
		}
	}
}

// findAwaited returns the current state of the awaited subflow, or nil. With told it is the one of that event; without,
// a new subflow of the connection on this path.
func (h *Handle) findAwaited(c Connection, told Event, local netip.Addr, remote netip.AddrPort) (*Subflow, error) {
	connections, err := h.Subflows()
	if err != nil {
		return nil, err
	}
	for _, now := range connections {
		if now.Token != c.Token {
			continue
		}
		for _, s := range now.Subflows {
			before := slices.ContainsFunc(c.Subflows, func(one Subflow) bool { return one.Cookie == s.Cookie })
			if s.Local == told.Local || told.Kind == 0 && !before && s.Local.Addr() == local && s.Remote == remote {
				return &s, nil
			}
		}
		return nil, nil
	}
	return nil, h.verify(c)
}

func notEstablished(c Connection, local netip.Addr, remote netip.AddrPort, why string, cause error) error {
	return &Error{
		Kind: NotEstablished, What: fmt.Sprintf("the subflow %v > %v was not established on %v: %s", local, remote, c, why), Cause: cause,
		Advice: "the other end, or a middlebox, does not accept joins on this path: try `ping -I` from that " +
			"address, and look at the other end's limits",
	}
}

func endReason(ctx context.Context) string {
	switch {
	case ctx.Err() == nil:
		return "the kernel stopped sending events"
	case errors.Is(ctx.Err(), context.Canceled):
		return "it was interrupted"
	default:
		return "no answer came in time"
	}
}

func closeReason(event Event) string {
	if event.ResetReason != 0 {
		return fmt.Sprintf("the other end reset it, reason %d (RFC 8684, 3.6)", event.ResetReason)
	}
	return "it was closed"
}

func cause(event Event) error {
	if event.ResetReason != 0 || event.Errno == 0 {
		return nil
	}
	return event.Errno
}
