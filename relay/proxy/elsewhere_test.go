// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"bicast/relay/internal/httpconnect"
)

func TestARefusalSaysWhetherAnotherRelayMayHelp(t *testing.T) {
	for code, expected := range map[int]outcome{
		httpconnect.Unable: another, httpconnect.TooMany: another, httpconnect.TooLong: another,
		httpconnect.Forbidden: without, httpconnect.Loop: without,
		httpconnect.Refused: over, httpconnect.Unanswering: over,
	} {
		if came := elsewhere(code); came != expected {
			t.Errorf("after %d: %v, expected %v", code, came, expected)
		}
	}
}
