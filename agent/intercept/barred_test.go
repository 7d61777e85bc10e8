// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"testing"
	"time"
)

func TestAFirewallIsInferredFromMissingConnections(t *testing.T) {
	start := time.Now()
	var seen intake
	for _, step := range []struct {
		second             int
		openings, accepted uint64
		blocked            bool
		why                string
	}{
		{0, 0, 0, false, "nothing has come"},
		{10, 0, 0, false, "nor has it later"},
		{11, 1, 0, false, "one may be on its way"},
		{14, 6, 0, false, "a host may be slow"},
		{20, 6, 0, true, "nothing comes of many packets for long"},
		{21, 6, 0, true, "without attempts the state stays"},
		{22, 9, 3, false, "now they come in"},
		{23, 12, 4, false, "a packet that is sent again opens no other connection"},
		{24, 0, 4, false, "the rules were written again"},
		{40, 8, 5, false, "and others come in"},
	} {
		if blocked := seen.blocked(step.openings, step.accepted, start.Add(time.Duration(step.second)*time.Second)); blocked != step.blocked {
			t.Errorf("second %d: %v, expected %v: %s", step.second, blocked, step.blocked, step.why)
		}
	}
}
