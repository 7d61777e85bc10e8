// SPDX-License-Identifier: Apache-2.0

// Package footprint limits the memory and processors of an agent: minimal on a phone, all of the host's while
// terminals' connections go through it.
package footprint

import (
	"runtime"
	"runtime/debug"
	"sync"

	"bicast/internal/memlimit"
)

const (
	smallGCPercent   = 50  // percent of heap growth before a collection
	defaultGCPercent = 100 // Go's default
)

var (
	mutex         sync.Mutex
	begun         bool
	carrying      int
	unlimitMemory = func() {} // undoes the memory limit
)

// Begin makes this process small: one processor is enough and saves a quarter of the CPU time, and memory is collected
// early (`-bench Cost`).
func Begin() {
	mutex.Lock()
	defer mutex.Unlock()
	begun = true
	apply()
}

// Carry allows all processors, and memory within the host's limits, until end is called.
func Carry() (end func()) {
	change := func(by int) {
		mutex.Lock()
		defer mutex.Unlock()
		carrying += by
		switch {
		case by > 0 && carrying == 1:
			unlimitMemory = memlimit.Bound()
		case carrying == 0:
			unlimitMemory()
		}
		apply()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

func apply() {
	switch {
	case !begun:
	case carrying > 0:
		runtime.GOMAXPROCS(runtime.NumCPU())
		debug.SetGCPercent(defaultGCPercent)
	default:
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(smallGCPercent)
	}
}
