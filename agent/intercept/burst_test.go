// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"sync"
	"testing"
	"time"
)

// Some connections to the relay then take longer than a second to open, while others are answered.
func TestTimedABurstIsRelayedDespiteLostSYNs(t *testing.T) {
	const rate, count, excused = 250, 200, 2 // excused: six SYNs in a row may be lost
	h := ordered(t, false, "tokyo")
	h.sees(television4, server4, relay4)
	h.relay.Run("nft", "add table ip lossy; add chain ip lossy in { type filter hook prerouting priority raw; };"+
		"add rule ip lossy in tcp dport 4433 tcp flags & (syn | ack) == syn numgen random mod 100 < 20 drop")
	seen := map[string]int{}
	var mutex sync.Mutex
	var burst sync.WaitGroup
	began := time.Now()
	for n := range count {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
		burst.Add(1)
		go func() {
			defer burst.Done()
			by := "nobody"
			if one, err := h.opens(television4, server4, "80"); err == nil {
				by = one.seen
				one.Close()
			}
			mutex.Lock()
			defer mutex.Unlock()
			seen[by]++
		}()
	}
	burst.Wait()
	t.Logf("%d connections in %v: %v", count, time.Since(began), seen)
	if seen[relay4] < count-excused {
		t.Errorf("the server sees %v of %d connections, expected %s of all but %d", seen, count, relay4, excused)
	}
}
