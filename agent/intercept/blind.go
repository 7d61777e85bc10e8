// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The kernel (since 6.12) takes SYNs that are lost for somebody on the way who swallows MPTCP, and then has all connections of
// the namespace be plain TCP, for an hour: a relay would be reached by one uplink alone.
const blinding = "/proc/sys/net/mptcp/blackhole_timeout"

// unblind has it not do that.
func (s *interception) unblind() error {
	before, err := os.ReadFile(blinding)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(blinding, []byte("0"), 0)
	}
	if err != nil {
		return fmt.Errorf("MPTCP would be given up where a SYN is lost: %w; that wants root", err)
	}
	s.blinded = before
	return nil
}

// reblind has it do as before.
func (s *interception) reblind() error {
	if s.blinded == nil {
		return nil
	}
	return os.WriteFile(blinding, s.blinded, 0)
}
