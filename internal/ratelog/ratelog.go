// Package ratelog limits how often the log has a warning that any unauthenticated peer can cause.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

const every = 10 * time.Second

// Teller warns of one kind of thing.
type Teller struct {
	Log   *slog.Logger
	mutex sync.Mutex
	last  time.Time
	quiet int
}

// Warn tells this one, and how many there were since the last one that was told.
func (t *Teller) Warn(what string, values ...any) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if now.Sub(t.last) < every {
		t.quiet++
		return
	}
	if t.quiet > 0 {
		values = append(values, "untold", t.quiet)
	}
	t.Log.Warn(what, values...)
	t.last, t.quiet = now, 0
}
