// Package intercept intercepts terminals' TCP connections at a gateway and carries them to relays (docs/relay.md), as a
// controller orders.
//
//	Take ─▶ devices towards the bridge, nft, a proxy ─ for each terminal by addresses of its own ─▶ relays ─▶ Taking
//
// Connections to relays are of one terminal each, and under the userspace path manager: the first subflow leaves by the
// terminal's best uplink, and as soon as it stands a further one is made by each of the others. Which of them carries what is
// the relay's side to say.
package intercept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/mptcp"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

const tendEvery = time.Second

// ErrNoGateway is why a terminal and a relay take nothing.
var ErrNoGateway = errors.New("terminals' connections are taken at a gateway: run an agent of role gateway where its bridge is")

// Hand takes as a controller ordered.
type Hand struct {
	kernel   *mptcp.Handle // nil: why not, the hello says
	within   func(func() error) error
	identity func() (trust.Identity, error)
	guard    []string // the command that holds the path manager
	log      *slog.Logger

	mutex   sync.Mutex
	ended   bool
	order   *agentv1.Take // nil: nothing is ordered
	choices *agentv1.Choices
	stands  *stand
	trouble error // why it is not as ordered
}

// NewHand has nothing to do yet.
func NewHand(
	kernel *mptcp.Handle, within func(func() error) error, identity func() (trust.Identity, error), guard []string, log *slog.Logger,
) *Hand {
	return &Hand{kernel: kernel, within: within, identity: identity, guard: guard, log: log, choices: &agentv1.Choices{}}
}

// Order takes the place of the order before; the same once more changes nothing.
func (h *Hand) Order(order *agentv1.Take) (string, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case h.ended:
		return "", errors.New("this agent is ending")
	case len(order.GetTerminals()) == 0:
		return "nothing is taken", errors.Join(h.end(), h.within(func() error {
			_, err := divert.Release() // what an agent left that was killed
			return err
		}))
	case h.kernel == nil:
		return "", errors.New("nothing can be taken: MPTCP connections of this host cannot be ordered; the agent's hello says why")
	}
	wanted, err := read(order)
	if err != nil {
		return "", err
	}
	if h.trouble == nil && proto.Equal(h.order, order) {
		return said(wanted) + ", as before", nil
	}
	h.order = order
	h.trouble = h.obey(wanted)
	return said(wanted), h.trouble
}

func said(w wanted) string {
	return fmt.Sprintf("connections of %s are taken, for %s", plural.Of(len(w.terminals), "terminal"), plural.Of(len(w.relays), "relay"))
}

func (h *Hand) obey(wanted wanted) error {
	if h.stands == nil {
		stand, err := begin(h)
		if err != nil {
			return err
		}
		h.stands = stand
	}
	return errors.Join(h.stands.obey(wanted), h.stands.choose(h.choices))
}

// Choose takes the place of the choices before.
func (h *Hand) Choose(order *agentv1.Choices) (string, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	relays := map[string]*proxy.Relay{}
	if h.stands != nil {
		relays = h.stands.relays
	}
	if _, err := chosen(order, relays); err != nil {
		return "", err
	}
	h.choices = order
	if h.stands == nil {
		return "nothing is taken, so nothing is chosen", nil
	}
	return plural.Of(len(order.GetChoices()), "choice") + " known", h.stands.choose(order)
}

// Run sees to what stands until the context ends, and then undoes it.
func (h *Hand) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, h.tend)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := h.end(); err != nil {
		h.log.Error("what takes terminals' connections did not end well", "because", err)
	}
	h.ended = true
}

// tend sees to what stands, and tries again what could not be done.
func (h *Hand) tend() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case h.order == nil:
	case h.trouble == nil:
		h.stands.tend()
	default:
		if wanted, err := read(h.order); err == nil {
			h.trouble = h.obey(wanted)
		}
	}
}

func (h *Hand) end() (err error) {
	if h.stands != nil {
		err = h.stands.end()
	}
	h.stands, h.order, h.trouble = nil, nil, nil
	return err
}

// Report is what the contract's has of taking; nil: nothing is ordered.
func (h *Hand) Report() *agentv1.Taking {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.order == nil {
		return nil
	}
	report := &agentv1.Taking{}
	if h.stands != nil {
		report = h.stands.report(h.order)
	}
	if h.trouble != nil {
		report.Because = h.trouble.Error()
	}
	return report
}
