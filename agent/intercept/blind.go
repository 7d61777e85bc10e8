// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// blackholeSysctl is the setting of blackhole detection in Linux 6.12 and later. After lost MPTCP SYNs the kernel falls back to
// plain TCP in the whole namespace, for an hour. A relay would then be reached by one uplink only.
const blackholeSysctl = "/proc/sys/net/mptcp/blackhole_timeout"

func (s *interception) disableBlackhole() error {
	before, err := os.ReadFile(blackholeSysctl)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(blackholeSysctl, []byte("0"), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot turn off MPTCP's blackhole detection, which falls back to TCP after lost SYNs: %w; this needs root", err)
	}
	s.blackholeTimeout = before
	return nil
}

func (s *interception) restoreBlackhole() error {
	if s.blackholeTimeout == nil {
		return nil
	}
	return os.WriteFile(blackholeSysctl, s.blackholeTimeout, 0)
}
