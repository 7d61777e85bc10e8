// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"io"

	"bicast/internal/claim"
	"bicast/mptcp"
)

// lock claims a namespace until it is closed: of two that set it up at once, each would take the other's values for what was there
// before. It is the namespace itself that is claimed, whichever state file they keep.
func lock(h *mptcp.Handle) (io.Closer, error) {
	alone, err := claim.Await(context.Background(), h.Do, "tune")
	if err != nil {
		return nil, fmt.Errorf("the network namespace cannot be had alone: %w; no other `setup` may run in it meanwhile", err)
	}
	return alone, nil
}
