// SPDX-License-Identifier: Apache-2.0

package host

import "testing"

func TestABusyExecutorRepeatsItsLastPart(t *testing.T) {
	free, told := make(chan struct{}, 1), 0
	one := &part[int]{read: func() int {
		<-free
		told++
		return told
	}}
	free <- struct{}{}
	if now := one.now(); now != 1 {
		t.Fatalf("%d is told, expected 1", now)
	}
	for range 2 {
		if now := one.now(); now != 1 {
			t.Fatalf("%d is told while it is busy, expected what was told before", now)
		}
	}
	one.at = one.at.Add(-staleAfter)
	if now := one.now(); now != 0 {
		t.Fatalf("%d is told, expected nothing of an executor that has been busy for so long", now)
	}
	ended := one.begin()
	free <- struct{}{}
	<-ended
	free <- struct{}{}
	if now := one.now(); now != 3 {
		t.Fatalf("%d is told, expected what is now", now)
	}
}
