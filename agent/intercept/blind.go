// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// blinding is the setting of blackhole detection in Linux 6.12 and later. After lost MPTCP SYNs the kernel falls back to
// plain TCP in the whole namespace, for an hour. A relay would then be reached by one uplink only.
const blinding = "/proc/sys/net/mptcp/blackhole_timeout"

// unblind turns blackhole detection off.
func (s *interception) unblind() error {
	before, err := os.ReadFile(blinding)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(blinding, []byte("0"), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot turn off MPTCP's blackhole detection, which falls back to TCP after lost SYNs: %w; this needs root", err)
	}
	s.blinded = before
	return nil
}

// reblind restores the previous setting.
func (s *interception) reblind() error {
	if s.blinded == nil {
		return nil
	}
	return os.WriteFile(blinding, s.blinded, 0)
}
