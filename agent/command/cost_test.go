// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"bicast/agent/internal/controllertest"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/mptcp"
)

// The cost of an agent that reports each second on 100 connections with two subflows each, some of them busy:
//
//	go test ./agent/command -run '^$' -bench Cost -benchtime 20x
//
// One round is one report. %core is the share of one core, as the agent reports it. Armed has a failover that looks every
// 37 ms. The paths are idle, so it does not fire.
func BenchmarkCost(b *testing.B) {
	b.Run("reports", func(b *testing.B) { cost(b, nil) })
	b.Run("armed", func(b *testing.B) {
		cost(b, &agentv1.Directive{Order: &agentv1.Directive_Arm{Arm: &agentv1.Arm{
			Name: "lte", Watched: path("10.1.0.1"), Fallback: path("10.2.0.1"), NoProgressMs: 150, LeaseMs: 3_600_000,
		}}})
	})
}

func cost(b *testing.B, order *agentv1.Directive) {
	const connections = 100
	phone, server := lab.Two(b)
	handle, err := mptcp.Open(phone.Path())
	if err != nil {
		b.Fatal(err)
	}
	defer handle.Close()
	phone.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	server.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	if err := handle.AddEndpoint(mptcp.Endpoint{Address: netip.MustParseAddr("10.2.0.1"), Flags: mptcp.Initiate}); err != nil {
		b.Fatal(err)
	}
	echo := server.Echo(lab.Service + ":0")
	for range connections {
		conn := phone.Dial(echo, "10.1.0.1")
		if err := lab.Exchange(conn, 10_000); err != nil {
			b.Fatal(err)
		}
	}
	program := filepath.Join(b.TempDir(), "bicast-agent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "bicast/agent")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	controller := controllertest.New(b)
	process := exec.Command(program, "run", "--netns", phone.Path(), "--directory", controller.Directory("phone"))
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	defer process.Wait()
	defer process.Process.Kill()
	visit, _ := controller.Welcomed(uint32(time.Second.Milliseconds()))
	if order != nil {
		visit.Order(order)
		if result := visit.Result(); !result.GetDone() {
			b.Fatal(result)
		}
	}
	first := visit.Report()
	visit.Take(first)
	last := first
	for b.Loop() {
		last = visit.Report()
		visit.Take(last)
	}
	if subflows := len(last.GetConnections()); subflows != connections || len(last.GetConnections()[0].GetSubflows()) != 2 {
		b.Fatalf("%d connections reported, expected %d with two subflows each", subflows, connections)
	}
	spent := float64(last.GetCost().GetCpuUs() - first.GetCost().GetCpuUs())
	b.ReportMetric(100*spent/float64(last.GetMonotonicUs()-first.GetMonotonicUs()), "%core")
	b.ReportMetric(float64(last.GetCost().GetRssBytes())/1e6, "MB")
}
