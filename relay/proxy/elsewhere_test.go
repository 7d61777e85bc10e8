// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"bicast/relay/internal/httpconnect"
)

func TestOutcomeOfTellsWhetherToTryAnotherRelay(t *testing.T) {
	for code, expected := range map[int]outcome{
		httpconnect.Unable: tryAnother, httpconnect.TooMany: tryAnother, httpconnect.TooLong: tryAnother,
		httpconnect.Forbidden: tryNone, httpconnect.Loop: tryNone,
		httpconnect.Refused: done, httpconnect.Unanswering: done,
	} {
		if came := outcomeOf(code); came != expected {
			t.Errorf("after %d: %v, expected %v", code, came, expected)
		}
	}
}
