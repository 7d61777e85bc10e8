// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervise notifies systemd that the agent is ready, and then regularly that it is alive, as long as alive returns.
// Without systemd it does nothing.
func supervise(ctx context.Context, alive func(), log *slog.Logger) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Error("systemd's watchdog has no valid interval", "reason", err)
	}
	notify(daemon.SdNotifyReady, log)
	if limit <= 0 {
		return
	}
	ticker := time.NewTicker(limit / 3) // one lost notice does not restart the agent
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			alive()
			notify(daemon.SdNotifyWatchdog, log)
		}
	}
}

func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd did not receive a notice", "notice", state, "reason", err)
	}
}
