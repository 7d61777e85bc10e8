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

// portSpec says what a port answers: the health sessions with these numbers, or the probes of one session.
type portSpec struct {
	health map[uint16]bandwidth.Key
	probes *bandwidth.Key
}

// listener answers at one port.
type listener interface {
	fits(portSpec) bool // false: the port has to be closed and reopened
	serve(portSpec)     // applies a specification that fits
	count(*agentv1.Answering)
	over() bool
	end()
}

// open listens at all addresses in the calling thread's network namespace. The measuring host chooses the address.
func open(port uint16, w portSpec, log *slog.Logger) (listener, error) {
	at := netip.AddrPortFrom(netip.Addr{}, port)
	if w.probes == nil {
		reflector, err := stamp.Listen(at, "")
		if err != nil {
			return nil, err
		}
		return &healthListener{begin(func(ctx context.Context) {
			defer reflector.Close() // the port must be free when the task has ended
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
			log.Error("a port stopped answering probes and will be reopened", "port", port, "reason", err)
		}
	}), reflector, *w.probes}, nil
}

// healthListener answers several sessions.
type healthListener struct {
	task
	reflector *stamp.Reflector
	keys      map[uint16]bandwidth.Key
}

func (d *healthListener) fits(w portSpec) bool { return w.health != nil }

// serve keeps the replay state of unchanged sessions.
func (d *healthListener) serve(w portSpec) {
	for number := range d.keys {
		if _, stays := w.health[number]; !stays {
			d.reflector.Drop(session(number, d.keys[number]))
		}
	}
	for number, key := range w.health {
		if before, known := d.keys[number]; !known || before != key {
			d.reflector.Open(session(number, key)) // cannot fail: the key is long enough
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
	to.Unauthenticated += counts.Short + counts.Strange + counts.Forged
	to.Replays += counts.Replayed
	to.TooMany += counts.TooMany
}

// probeListener answers one session.
type probeListener struct {
	task
	reflector *bandwidth.Reflector
	key       bandwidth.Key
}

func (d *probeListener) fits(w portSpec) bool { return w.probes != nil && *w.probes == d.key }

func (d *probeListener) serve(portSpec) {}

func (d *probeListener) count(to *agentv1.Answering) {
	counts := d.reflector.Counters()
	to.Probes += counts.Answered
	to.Unauthenticated += counts.Unauthenticated
	to.Replays += counts.Replays
	to.TooMany += counts.Refused
}
