// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"context"
	"log/slog"
	"net/netip"

	"bicast/agent/probing/bandwidth"
	"bicast/agent/probing/stamp"
	"bicast/api/agentv1"
)

// wanted is what is to be answered at a port: the health of some sessions, by their numbers, or the probes of one.
type wanted struct {
	health map[uint16]bandwidth.Key
	probes *bandwidth.Key
}

// listener is a port at which is answered.
type listener interface {
	fits(wanted) bool // else it is to be closed
	serve(wanted)     // of those that fit
	count(*agentv1.Answering)
	over() bool
	end()
}

// open is in the calling thread's network namespace, and at all addresses: by which of them it is reached is known to who asks.
func open(port uint16, w wanted, log *slog.Logger) (listener, error) {
	at := netip.AddrPortFrom(netip.Addr{}, port)
	if w.probes == nil {
		reflector, err := stamp.Listen(at, "")
		if err != nil {
			return nil, err
		}
		return &healthListener{begin(func(ctx context.Context) {
			defer reflector.Close() // and not only begin to: the port may be wanted for something else
			reflector.Run(ctx)
		}), reflector, map[uint16]bandwidth.Key{}}, nil
	}
	reflector, err := bandwidth.Open(bandwidth.Settings{At: at, Key: *w.probes})
	if err != nil {
		return nil, err
	}
	return &probeListener{begin(func(ctx context.Context) {
		defer reflector.Close()
		if err := reflector.Run(ctx); err != nil {
			log.Error("a port is not answered any more, and is opened again", "port", port, "because", err)
		}
	}), reflector, *w.probes}, nil
}

// healthListener answers several sessions.
type healthListener struct {
	part
	reflector *stamp.Reflector
	keys      map[uint16]bandwidth.Key
}

func (d *healthListener) fits(w wanted) bool { return w.health != nil }

// serve lets sessions that are the same go on: which of their numbers were answered is known.
func (d *healthListener) serve(w wanted) {
	for number := range d.keys {
		if _, stays := w.health[number]; !stays {
			d.reflector.Drop(session(number, d.keys[number]))
		}
	}
	for number, key := range w.health {
		if before, known := d.keys[number]; !known || before != key {
			d.reflector.Open(session(number, key)) // which refuses no key that is so long
		}
	}
	d.keys = w.health
}

func session(number uint16, key bandwidth.Key) stamp.Session {
	return stamp.Session{ID: number, Key: key[:], Stateful: true}
}

func (d *healthListener) count(to *agentv1.Answering) {
	counts := d.reflector.Counts()
	to.HealthPackets += counts.Answered
	to.Strangers += counts.Short + counts.Strange + counts.Forged
	to.Replays += counts.Replayed
	to.TooMany += counts.TooMany
}

// probeListener answers one session.
type probeListener struct {
	part
	reflector *bandwidth.Reflector
	key       bandwidth.Key
}

func (d *probeListener) fits(w wanted) bool { return w.probes != nil && *w.probes == d.key }

func (d *probeListener) serve(wanted) {}

func (d *probeListener) count(to *agentv1.Answering) {
	counts := d.reflector.Counters()
	to.Probes += counts.Answered
	to.Strangers += counts.Strangers
	to.Replays += counts.Replays
	to.TooMany += counts.Refused
}
