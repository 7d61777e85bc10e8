package blocks

import (
	"path/filepath"
	"testing"

	"bicast/internal/lab"
)

func TestReleaseTakesAwayWhatAKilledAgentLeftAndGivesSocketsBackWhatTheyHad(t *testing.T) {
	client, server := lab.Two(t)
	cgroup, socket := newCgroup(t), filepath.Join(t.TempDir(), "sharers")
	conn := newApplication(t, client, cgroup).calls(server.PlainEcho("10.1.0.2:7").String())
	process := agent(t, client, socket, cgroup, caps(block, 10_000))
	awaitMark(t, "an older socket", conn, block)
	if gone := release(t, client); gone != 0 || count(t, cgroup) != 1 {
		t.Errorf("%d programs are taken away, expected that of a living agent to stay", gone)
	}
	kill(process)
	if gone := release(t, server); gone != 0 || count(t, cgroup) != 1 {
		t.Errorf("%d programs are taken away, expected that of another network namespace to stay", gone)
	}
	if gone := release(t, client); gone != 1 || count(t, cgroup) != 0 {
		t.Errorf("%d programs are taken away and %d are left, expected that of the killed agent to go", gone, count(t, cgroup))
	}
	if found := mark(t, conn); found != 0 {
		t.Errorf("the socket has a mark of %d bytes, expected none", found)
	}
	if gone := release(t, client); gone != 0 {
		t.Errorf("%d programs are taken away where nothing is left", gone)
	}
}

func TestReleaseLeavesThatOfALivingAgentBesideWhatAKilledOneLeft(t *testing.T) {
	client, server := lab.Two(t)
	cgroup, socket := newCgroup(t), filepath.Join(t.TempDir(), "sharers")
	conn := newApplication(t, client, cgroup).calls(server.PlainEcho("10.1.0.2:7").String())
	process := agent(t, client, socket, cgroup, caps(block, 10_000))
	awaitMark(t, "an older socket", conn, block)
	kill(process)
	agent(t, client, socket, cgroup, caps(65536, 10_000), asService...)
	await(t, "the next one's program stands, too", func() bool { return count(t, cgroup) == 2 })
	if gone := release(t, client); gone != 1 || count(t, cgroup) != 1 {
		t.Errorf("%d programs are taken away and %d are left, expected that of the killed agent to go alone", gone, count(t, cgroup))
	}
	await(t, "what the next one ordered holds", func() bool {
		must(t, lab.Exchange(conn, 1000))
		return mark(t, conn) == 65536
	})
	if gone := release(t, client); gone != 0 || count(t, cgroup) != 1 {
		t.Errorf("%d programs are taken away, expected that of the living agent to stay", gone)
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
