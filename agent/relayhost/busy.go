// SPDX-License-Identifier: Apache-2.0

package relayhost

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"sync"
	"time"
)

// measuredOver is the minimum time between two readings, so that a short peak does not count as overload.
const measuredOver = 5 * time.Second

// loadMeter measures the load of this host's busiest processor.
type loadMeter struct {
	mutex       sync.Mutex
	read        time.Duration
	last        map[string]ticks
	lastPercent uint32
}

type ticks struct{ idle, all uint64 }

// percent returns the load between the last two readings, or 0 before the second reading.
func (b *loadMeter) percent(now time.Duration) uint32 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.last != nil && now-b.read < measuredOver {
		return b.lastPercent
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return b.lastPercent
	}
	read := processors(text)
	b.lastPercent = busiest(b.last, read)
	b.last, b.read = read, now
	return b.lastPercent
}

func busiest(before, after map[string]ticks) (most uint32) {
	for name, now := range after {
		then, known := before[name]
		if !known || now.all <= then.all {
			continue
		}
		idle := float64(now.idle-min(then.idle, now.idle)) / float64(now.all-then.all)
		most = max(most, uint32(math.Round(100*max(0, 1-idle))))
	}
	return most
}

// processors parses the lines cpuN of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Nice time counts
// as idle, since it yields to the relay. User time already includes guest time.
func processors(text []byte) map[string]ticks {
	all := map[string]ticks{}
	for _, line := range bytes.Split(text, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) < 9 || !bytes.HasPrefix(fields[0], []byte("cpu")) || len(fields[0]) == len("cpu") {
			continue
		}
		var one ticks
		for i, field := range fields[1:9] {
			n, err := strconv.ParseUint(string(field), 10, 64)
			if err != nil {
				return nil
			}
			one.all += n
			if i == 1 || i == 3 || i == 4 {
				one.idle += n
			}
		}
		all[string(fields[0])] = one
	}
	return all
}
