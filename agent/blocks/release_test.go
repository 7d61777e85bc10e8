// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"testing"

	"bicast/internal/lab"
)

func TestReleaseRestoresAKilledAgentsSockets(t *testing.T) {
	h := newHeld(t, 10_000)
	if gone := release(t, h.client); gone != 0 || count(t, h.cgroup) != 1 {
		t.Errorf("%d programs are detached, expected that of a running agent to stay", gone)
	}
	kill(h.agent)
	if gone := release(t, h.server); gone != 0 || count(t, h.cgroup) != 1 {
		t.Errorf("%d programs are detached, expected that of another network namespace to stay", gone)
	}
	if gone := release(t, h.client); gone != 1 || count(t, h.cgroup) != 0 {
		t.Errorf("%d programs are detached and %d are left, expected that of the killed agent to be detached", gone, count(t, h.cgroup))
	}
	if found := mark(t, h.conn); found != 0 {
		t.Errorf("the socket has a mark of %d bytes, expected none", found)
	}
	if gone := release(t, h.client); gone != 0 {
		t.Errorf("%d programs are detached, expected none", gone)
	}
}

func TestReleaseKeepsALivingAgentsProgram(t *testing.T) {
	h := newHeld(t, 10_000)
	kill(h.agent)
	agent(t, h.client, h.socket, h.cgroup, blocksOrder(65536, 10_000), serviceRights...)
	await(t, "the next one's program stands, too", func() bool { return count(t, h.cgroup) == 2 })
	if gone := release(t, h.client); gone != 1 || count(t, h.cgroup) != 1 {
		t.Errorf("%d programs are detached and %d are left, expected only that of the killed agent to be detached", gone, count(t, h.cgroup))
	}
	await(t, "what the next one ordered holds", func() bool {
		must(t, lab.Exchange(h.conn, 1000))
		return mark(t, h.conn) == 65536
	})
	if gone := release(t, h.client); gone != 0 || count(t, h.cgroup) != 1 {
		t.Errorf("%d programs are detached, expected that of the running agent to stay", gone)
	}
}

func release(t testing.TB, host *lab.Host) (gone int) {
	t.Helper()
	host.Do(func() (err error) {
		gone, _, err = Release()
		return err
	})
	return gone
}
