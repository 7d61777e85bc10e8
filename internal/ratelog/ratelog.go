// SPDX-License-Identifier: Apache-2.0

// Package ratelog limits how often the log has a warning that any unauthenticated peer can cause.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

const every = 10 * time.Second

// Logger logs warnings of one kind.
type Logger struct {
	Log   *slog.Logger
	mutex sync.Mutex
	last  time.Time
	quiet int
}

// Warn logs a warning, with the number of those that it left out since the last one.
func (l *Logger) Warn(what string, values ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now()
	if now.Sub(l.last) < every {
		l.quiet++
		return
	}
	if l.quiet > 0 {
		values = append(values, "untold", l.quiet)
	}
	l.Log.Warn(what, values...)
	l.last, l.quiet = now, 0
}
