// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"io"

	"bicast/internal/claim"
	"bicast/mptcp"
)

// lock claims the namespace, whichever state file is used: two concurrent setups would record each other's values as
// the original ones.
func lock(h *mptcp.Handle) (io.Closer, error) {
	exclusive, err := claim.Await(context.Background(), h.Do, "tune")
	if err != nil {
		return nil, fmt.Errorf("cannot lock the network namespace: %w; only one `setup` may run in it at a time", err)
	}
	return exclusive, nil
}
