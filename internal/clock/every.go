// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"time"
)

// Every calls work periodically until the context ends.
func Every(ctx context.Context, pause time.Duration, work func()) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			work()
		case <-ctx.Done():
			return
		}
	}
}
