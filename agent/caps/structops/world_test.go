// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"strings"
	"testing"

	"bicast/agent/caps/capstest"
)

const (
	near    = capstest.Near
	nearLTE = capstest.NearLTE
	far     = capstest.Far
	other   = capstest.Other
	near6   = capstest.Near6
	far6    = capstest.Far6
	lease   = capstest.Lease
)

var (
	await   = capstest.Await
	between = capstest.Between
	capOf   = capstest.CapOf
)

func newWorld(t *testing.T) *capstest.World { return capstest.New(t, NewExecutor) }

// underCap returns whether the upload's congestion control is one of this program's.
func underCap(u *capstest.Upload) bool { return strings.HasPrefix(u.Control(), "bicast_") }
