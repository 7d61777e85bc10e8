// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
	"testing"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

func capped(caps ...*agentv1.Cap) *agentv1.Directive {
	return &agentv1.Directive{Order: &agentv1.Directive_Caps{Caps: &agentv1.Caps{Caps: caps, LeaseMs: 3000, Sharers: 2, BlockBytes: 8192}}}
}

func TestCapsBelongToTerminalsAndWindowsToGateways(t *testing.T) {
	host := lab.One(t)
	cap := &agentv1.Cap{TerminalAddress: "10.1.0.1", OtherAddress: "10.9.0.1", MostSegments: 10, LeastSegments: 9}
	for role, able := range map[agentv1.Role]string{
		agentv1.Role_ROLE_TERMINAL: "caps clamp", agentv1.Role_ROLE_GATEWAY: "window", agentv1.Role_ROLE_RELAY: "",
	} {
		h := open(t, host.Path(), role)
		for _, name := range []string{"caps", "clamp", "window"} {
			if told(t, h.Hello(), name).GetAvailable() != strings.Contains(able, name) {
				t.Fatalf("the capability is %v as %v, expected only %s to be available", told(t, h.Hello(), name), role, able)
			}
		}
		order := capped(cap)
		if role == agentv1.Role_ROLE_GATEWAY {
			order.GetCaps().Ports = []string{"lo"}
		}
		result := h.Obey(context.Background(), order)
		if result.GetDone() != (able != "") || able == "" && !strings.Contains(result.GetAnswer(), "relay") {
			t.Fatalf("%v as %v, expected the order to succeed if the host is capable", result, role)
		}
		report, err := h.Report()
		if err != nil {
			t.Fatal(err)
		}
		if (report.GetCapping().GetMethod() != "") != (able != "") {
			t.Fatalf("the report names the method in %v as %v, expected one if the host is capable", report.GetCapping(), role)
		}
	}
}

func TestSharersArePublishedWithoutKernelSupportForCaps(t *testing.T) {
	h := open(t, lab.One(t).Path(), agentv1.Role_ROLE_TERMINAL)
	h.windows.cannot = context.DeadlineExceeded
	if result := h.Obey(context.Background(), capped()); !result.GetDone() {
		t.Fatalf("%v, expected an order without caps to be obeyed", result)
	}
	if result := h.Obey(context.Background(), capped(&agentv1.Cap{})); result.GetDone() || result.GetAnswer() != context.DeadlineExceeded.Error() {
		t.Fatalf("%v, expected the reason why there is no executor", result)
	}
}
