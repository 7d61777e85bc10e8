// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"bicast/api/agentv1"
)

func TestOrderRefusesInvalidCaps(t *testing.T) {
	var many []*agentv1.Cap
	for n := range 5000 {
		many = append(many, capOf(near, fmt.Sprintf("10.9.%d.%d", n/250, n%250+1), 0, 10))
	}
	fine := capOf(near, far, 5, 10)
	for name, each := range map[string]struct {
		caps     []*agentv1.Cap
		leaseMS  uint32
		expected string
	}{
		"no lease":            {[]*agentv1.Cap{fine}, 0, "a lease of 0s"},
		"a short lease":       {[]*agentv1.Cap{fine}, 499, "a lease of 499ms"},
		"a long lease":        {[]*agentv1.Cap{fine}, 10_001, "a lease of 10.001s"},
		"5000":                {many, 3000, "5000 caps"},
		"no segment":          {[]*agentv1.Cap{fine, capOf(near, other, 0, 0)}, 3000, "at most 0 segments"},
		"too many segments":   {[]*agentv1.Cap{capOf(near, far, 0, 1<<31)}, 3000, "at most 2147483648 segments"},
		"least above most":    {[]*agentv1.Cap{capOf(near, far, 11, 10)}, 3000, "at least 11 segments and at most 10"},
		"no address":          {[]*agentv1.Cap{capOf("", far, 0, 10)}, 3000, `"" is not an IP address`},
		"a name":              {[]*agentv1.Cap{capOf(near, "server", 0, 10)}, 3000, `"server" is not an IP address`},
		"any":                 {[]*agentv1.Cap{capOf(near, "0.0.0.0", 0, 10)}, 3000, "0.0.0.0 is not a unicast address"},
		"loopback":            {[]*agentv1.Cap{capOf("127.0.0.1", far, 0, 10)}, 3000, "127.0.0.1 is not"},
		"many hosts":          {[]*agentv1.Cap{capOf(near, "224.0.0.1", 0, 10)}, 3000, "224.0.0.1 is not"},
		"a zone":              {[]*agentv1.Cap{capOf("fe80::1%wifi", "fe80::2", 0, 10)}, 3000, "fe80::1%wifi is not"},
		"itself":              {[]*agentv1.Cap{capOf(near, near, 0, 10)}, 3000, "expected two hosts"},
		"two versions":        {[]*agentv1.Cap{capOf(near, "fd00::1", 0, 10)}, 3000, "expected the same version"},
		"twice":               {[]*agentv1.Cap{fine, capOf(near, far, 0, 20)}, 3000, "ordered twice"},
		"twice in other ways": {[]*agentv1.Cap{fine, capOf("::ffff:"+near, far, 0, 20)}, 3000, "ordered twice"},
		"nothing":             {[]*agentv1.Cap{nil}, 3000, `"" is not an IP address`},
	} {
		t.Run(name, func(t *testing.T) {
			executor := NewExecutor(func(func() error) error { panic("something was begun") }, slog.New(slog.DiscardHandler))
			_, err := executor.Order(&agentv1.Caps{Caps: each.caps, LeaseMs: each.leaseMS})
			if err == nil || !strings.Contains(err.Error(), each.expected) {
				t.Fatalf("%v, expected %q", err, each.expected)
			}
			if executor.Report() != nil {
				t.Fatal("it is held to be ordered")
			}
		})
	}
}

func TestRefusedOrderKeepsThePreviousOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	w.Start(executor)
	upload := w.Upload(far, false)
	w.Order(executor, capOf(near, far, 5, 10))
	if _, err := executor.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 20, 10)}, LeaseMs: lease}); err == nil {
		t.Fatal("the executor accepts a cap with a minimum above its maximum")
	}
	upload.StaysWithin(5, 10)
}

func TestProbeSucceedsRepeatedly(t *testing.T) {
	for range 2 {
		if err := Probe(); err != nil {
			t.Fatal(err)
		}
	}
}
