package mptcp_test

import (
	"slices"
	"testing"

	"bicast/mptcp"
)

func TestSubflowsAloneAreThoseOfTheConnections(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	for _, handle := range []*mptcp.Handle{b.handle, b.far} {
		whole, err := handle.Connections()
		must(t, err)
		alone, err := handle.Subflows()
		must(t, err)
		if len(alone) != 1 || alone[0].Token != whole[0].Token || alone[0].Serves != whole[0].Serves {
			t.Fatalf("%v, expected %v", alone, whole)
		}
		if !slices.EqualFunc(alone[0].Subflows, whole[0].Subflows, func(a, b mptcp.Subflow) bool {
			return a.Cookie == b.Cookie && a.Local == b.Local && a.Remote == b.Remote
		}) {
			t.Fatalf("%v, expected %v", alone[0].Subflows, whole[0].Subflows)
		}
	}
}
