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

// The kernel calls a subflow established when the other end's first answer is there. That it was refused, for want of
// room under the other end's limits, comes one round trip later, and that it was not, is no event: so it is looked at.
const (
	lookAgain   = 5 * time.Millisecond
	lookForLost = 50 * time.Millisecond
	answersSoon = time.Second // kernels that do not tell, or an answer that is lost: what still lives then will do
)

// await returns the event that tells that a subflow is established, when the other end has agreed to it, or why it will
// not be.
func (h *Handle) await(
	ctx context.Context, events <-chan Event, c Connection, local netip.Addr, remote netip.AddrPort,
) (Event, error) {
	var established Event
	var look, late <-chan time.Time
	lost := false // some events were: what they told is read
	for {
		select {
		case event, more := <-events:
			ours := more && event.Token == c.Token && event.Local.Addr() == local && event.Remote == remote
			switch {
			case more && event.Kind == 0 && !lost:
				lost = true
				if look == nil {
					ticker := time.NewTicker(lookForLost)
					defer ticker.Stop()
					look = ticker.C
				}
			case !more:
				return Event{}, notEstablished(c, local, remote, silence(ctx), nil)
			case event.Token == c.Token && event.Kind == ConnectionClosed:
				return Event{}, &Error{Kind: Gone, What: fmt.Sprintf("%v has ended", c), Advice: "list again"}
			case ours && event.Kind == SubflowClosed:
				return Event{}, notEstablished(c, local, remote, whyClosed(event), said(event))
			case ours && event.Kind == SubflowEstablished:
				ticker := time.NewTicker(lookAgain)
				defer ticker.Stop()
				established, look, late = event, ticker.C, time.After(answersSoon)
			}
		case <-look:
			now, err := h.made(c, established, local, remote)
			switch {
			case err != nil:
				return established, err
			case now != nil && now.agreed:
				return Event{Kind: SubflowEstablished, Token: c.Token, Local: now.Local, Remote: now.Remote}, nil
			case now != nil && now.Established && late == nil:
				late = time.After(answersSoon)
				established = Event{Kind: SubflowEstablished, Token: c.Token, Local: now.Local, Remote: now.Remote}
			case now == nil && lost && late != nil: // the event that told why is lost
				return Event{}, notEstablished(c, local, remote, "it was closed", nil)
			}
		case <-late:
			return established, nil
		case <-ctx.Done():
			return Event{}, notEstablished(c, local, remote, silence(ctx), nil)
		}
	}
}

// made returns the subflow that is awaited, as it is now: the one that an event told of, or, where that was lost, one by this path
// that the connection did not have before. It is nil where there is none.
func (h *Handle) made(c Connection, told Event, local netip.Addr, remote netip.AddrPort) (*Subflow, error) {
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

func notEstablished(c Connection, local netip.Addr, remote netip.AddrPort, why string, said error) error {
	return &Error{
		Kind: NotEstablished, What: fmt.Sprintf("no subflow %v > %v came to be on %v: %s", local, remote, c, why), Said: said,
		Advice: "the other end, or something on the way, does not take joins there: try `ping -I` from that " +
			"address, and look at the other end's limits",
	}
}

func silence(ctx context.Context) string {
	switch {
	case ctx.Err() == nil:
		return "the kernel stopped telling"
	case errors.Is(ctx.Err(), context.Canceled):
		return "it was broken off"
	default:
		return "nothing was heard of it in time"
	}
}

func whyClosed(event Event) string {
	if event.ResetReason != 0 {
		return fmt.Sprintf("the other end reset it, with reason %d of RFC 8684", event.ResetReason)
	}
	return "it was closed"
}

func said(event Event) error {
	if event.ResetReason != 0 || event.Errno == 0 {
		return nil
	}
	return event.Errno
}
