// SPDX-License-Identifier: Apache-2.0

// Package ratelog limits the rate of warnings that unauthenticated peers can cause.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

const interval = 10 * time.Second

// Logger logs warnings of one kind.
type Logger struct {
	Log        *slog.Logger
	mutex      sync.Mutex
	last       time.Time
	suppressed int
}

// Warn logs a warning with the number of those suppressed since the last one.
func (l *Logger) Warn(what string, values ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now()
	if now.Sub(l.last) < interval {
		l.suppressed++
		return
	}
	if l.suppressed > 0 {
		values = append(values, "untold", l.suppressed)
	}
	l.Log.Warn(what, values...)
	l.last, l.suppressed = now, 0
}
