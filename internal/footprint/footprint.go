// SPDX-License-Identifier: Apache-2.0

// Package footprint sets how much memory and how many processors an agent uses: on a phone as little as possible, and what the
// host has while terminals' connections go through it.
package footprint

import (
	"runtime"
	"runtime/debug"
	"sync"

	"bicast/internal/memlimit"
)

const (
	soon  = 50  // percent by which the heap grows until its garbage goes
	usual = 100 // as Go has it
)

var (
	mutex    sync.Mutex
	begun    bool
	carrying int
	unbound  = func() {} // takes back the bound of memory
)

// Begin lets this process be small: one processor is more than it needs and spares a quarter of what it costs, and its
// garbage goes soon (`-bench Cost`).
func Begin() {
	mutex.Lock()
	defer mutex.Unlock()
	begun = true
	settle()
}

// Carry lets it have all processors, and no more memory than is good for its host, until end is called.
func Carry() (end func()) {
	change := func(by int) {
		mutex.Lock()
		defer mutex.Unlock()
		carrying += by
		switch {
		case by > 0 && carrying == 1:
			unbound = memlimit.Bound()
		case carrying == 0:
			unbound()
		}
		settle()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

func settle() {
	switch {
	case !begun:
	case carrying > 0:
		runtime.GOMAXPROCS(runtime.NumCPU())
		debug.SetGCPercent(usual)
	default:
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(soon)
	}
}
