// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

func TestASecondAgentOfANamespaceIsRefused(t *testing.T) {
	w := newWorld(t, false)
	near, away := w.orders()
	first := w.agent(w.far, away)
	w.near = w.site(w.gateway, w.ports, near)
	w.await("the near end hears the other", func() bool { return w.near.says().GetReason() == "" })
	stands := func() string {
		return w.far.Run("ip", "-o", "link", "show", "type", "vxlan") + w.far.Run("ip", "-o", "link", "show", "type", "tun")
	}
	before := stands()
	others := proto.Clone(away).(*agentv1.Tunnels)
	others.Tunnels[0].Name, others.Tunnels[0].Port, others.Tunnels[0].Vni = "lte", "tun2", testVNI+1
	second := NewExecutor(w.far.Try, w.far.Try, farKeys, &fits{}, discard())
	for _, order := range []*agentv1.Tunnels{others, away} {
		_, err := second.Order(order)
		if process := fmt.Sprintf("process %d", first.Process.Pid); err == nil || !strings.Contains(err.Error(), process) {
			t.Fatalf("%v, expected it to name %s", err, process)
		}
	}
	if _, err := second.Order(&agentv1.Tunnels{}); err != nil {
		t.Fatalf("%v, expected an order without tunnels to succeed", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	second.Run(ended)
	if now := stands(); now != before {
		t.Fatalf("%s, expected %s", now, before)
	}
	w.kill(first)
	w.away = w.site(w.far, w.far, away)
	w.await("the ends hear each other", w.alive)
}

func TestALocalUserCannotBlockATunnel(t *testing.T) {
	host := lab.One(t)
	host.Squat([]string{"bicast-tunnels", "bicast/tunnels"}, nil)
	mine, err := claimTunnels(host.Try)
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.Close(); err != nil {
		t.Fatal(err)
	}
}
