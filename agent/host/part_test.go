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
		t.Fatalf("the part is %d, expected 1", now)
	}
	for range 2 {
		if now := one.now(); now != 1 {
			t.Fatalf("the part of a busy executor is %d, expected the previous one", now)
		}
	}
	one.at = one.at.Add(-staleAfter)
	if now := one.now(); now != 0 {
		t.Fatalf("the part is %d, expected none after a long busy period", now)
	}
	ended := one.begin()
	free <- struct{}{}
	<-ended
	free <- struct{}{}
	if now := one.now(); now != 3 {
		t.Fatalf("the part is %d, expected the current one", now)
	}
}
