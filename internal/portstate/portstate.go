// SPDX-License-Identifier: Apache-2.0

// Package portstate remembers at which ports a program is missing, and why, and logs each change once.
package portstate

import "log/slog"

// Ports are known by name: why there is no program; nil where it stands.
type Ports map[string]error

// Words are said of a port, in the log.
type Words struct{ Lost, Back string }

// Found is what was found of a port just now.
func (p Ports) Found(port string, err error, log *slog.Logger, words Words) {
	before, known := p[port]
	p[port] = err
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		log.Warn(words.Lost, "port", port, "because", err)
	case err == nil && known && before != nil:
		log.Info(words.Back, "port", port)
	}
}
