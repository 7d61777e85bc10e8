// SPDX-License-Identifier: Apache-2.0

package footprint

import (
	"runtime"
	"testing"
)

func TestCarryUsesAllProcessorsWhileActive(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	expect := func(when string, processors int) {
		t.Helper()
		if taken := runtime.GOMAXPROCS(0); taken != processors {
			t.Fatalf("%s %d processors are taken, expected %d", when, taken, processors)
		}
	}
	Carry()() // before Begin: no effect
	expect("in the beginning", all)
	Begin()
	expect("when it is to be small", 1)
	one, other := Carry(), Carry()
	expect("while two carry", runtime.NumCPU())
	one()
	one()
	expect("while one carries", runtime.NumCPU())
	other()
	expect("when nobody carries", 1)
}
