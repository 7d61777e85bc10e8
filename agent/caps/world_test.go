package caps

import (
	"strings"
	"testing"

	"bicast/agent/capping/world"
)

const (
	near    = world.Near
	nearLTE = world.NearLTE
	far     = world.Far
	other   = world.Other
	near6   = world.Near6
	far6    = world.Far6
	lease   = world.Lease
)

var (
	await   = world.Await
	between = world.Between
	capOf   = world.CapOf
)

func newWorld(t *testing.T) *world.World { return world.New(t, NewHand) }

func held(u *world.Upload) bool { return strings.HasPrefix(u.Control(), "bicast_") }
