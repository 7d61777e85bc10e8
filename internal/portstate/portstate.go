// SPDX-License-Identifier: Apache-2.0

// Package portstate records which ports lack a program, and why, and logs each change once.
package portstate

import "log/slog"

// Ports maps a port to the reason why its program is missing, or nil.
type Ports map[string]error

// Words are the log messages for a port that lost its program or has it back.
type Words struct{ Lost, Back string }

// Found records the current state of a port.
func (p Ports) Found(port string, err error, log *slog.Logger, words Words) {
	before, known := p[port]
	p[port] = err
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		log.Warn(words.Lost, "port", port, "reason", err)
	case err == nil && known && before != nil:
		log.Info(words.Back, "port", port)
	}
}
