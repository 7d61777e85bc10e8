// Package command is `bicast-agent mptcp`: the words with which people see and steer live MPTCP connections.
package command

import "io"

// Usage is the exit code of a wrong command line.
const Usage = 2

// Main runs one verb and returns the exit code.
func Main(arguments []string, out, complaints io.Writer) int { return Usage }
