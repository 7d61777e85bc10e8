package caps

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
)

func TestWindowsAreHeldAtMostAndAtLeastAndFollowTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	older := w.upload(far, false)
	own := older.control()
	w.order(hand, capOf(near, far, 20, 30))
	newer := w.upload(far, false)
	if !older.held() || !newer.held() {
		t.Fatalf("%s, %s: expected both to be held by now", older.control(), newer.control())
	}
	w.runs(hand)
	for _, now := range []struct{ least, most uint32 }{{20, 30}, {110, 120}, {0, 8}, {50, 50}} {
		w.order(hand, capOf(near, far, now.least, now.most))
		for _, each := range []*upload{older, newer} {
			each.stays(now.least, now.most)
		}
	}
	await(t, func() bool { return hand.Report().GetHeld() == 2 }, func() any { return hand.Report() }, "2 held")
	if by := hand.Report().GetHand(); by != "congestion-control" {
		t.Fatalf("held by %s", by)
	}
	w.order(hand)
	for _, each := range []*upload{older, newer} {
		if now := each.control(); now != own {
			t.Fatalf("%s, expected %s to be given back", now, own)
		}
		each.awaitWindow(55, 10_000)
	}
	if report := hand.Report(); report.GetHeld() != 0 {
		t.Fatalf("%v, expected none to be held", report)
	}
}

func TestWhatHasNoCapIsLeftAlone(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newWorld(t)
	hand := w.hand()
	w.order(hand, capOf(near, far, 5, 10))
	held, beside, away := w.upload(far, false), w.upload(other, false), elsewhere.upload(far, false)
	w.runs(hand)
	held.stays(5, 10)
	for _, each := range []*upload{beside, away} {
		each.awaitWindow(100, 10_000)
		if each.held() {
			t.Fatalf("%s has another congestion control", each.conn.RemoteAddr())
		}
	}
}

func TestIPv6IsHeldAndIPv4InASocketOfBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	older := w.upload(far6, false)
	w.runs(hand)
	w.order(hand, capOf(near6, far6, 5, 10), capOf(near, far, 15, 20))
	newer, both := w.upload(far6, false), w.asked()
	older.stays(5, 10)
	newer.stays(5, 10)
	both.stays(15, 20)
}

func TestTheEndOfTheHandGivesAllBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	upload := w.upload(far, false)
	own := upload.control()
	end := w.runs(hand)
	w.order(hand, capOf(near, far, 0, 10))
	upload.stays(0, 10)
	end()
	if now := upload.control(); now != own {
		t.Fatalf("%s, expected %s", now, own)
	}
	if report := hand.Report(); report != nil {
		t.Fatalf("%v, expected nothing to be ordered", report)
	}
	next := w.hand()
	w.runs(next)
	w.order(next, capOf(near, far, 0, 10)) // nothing is left that would be in the way
}

func TestTheEndOfTheLeaseGivesAllBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	upload := w.upload(far, false)
	own := upload.control()
	w.runs(hand)
	if _, err := hand.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 10)}, LeaseMs: 500}); err != nil {
		t.Fatal(err)
	}
	upload.awaitWindow(0, 10)
	await(t, func() bool { return upload.control() == own }, func() any { return upload.control() }, own)
	await(t, func() bool { return hand.Report() == nil }, func() any { return hand.Report() }, "none")
}

func TestOfTwoHandsTheSecondIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.hand()
	w.runs(first)
	w.order(first, capOf(near, far, 0, 10))
	_, err := w.hand().Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 20)}, LeaseMs: lease})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Fatalf("%v, expected it to say who has it", err)
	}
}

func TestPaceHoldsWhereAWindowCannotBeSoSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	upload := w.upload(far, false)
	before := upload.info().Max_pacing_rate
	w.runs(hand)
	slow := capOf(near, far, 0, 2)
	slow.PaceBps = 4_000_000
	w.order(hand, slow)
	paced := func(expected uint64) {
		t.Helper()
		await(t, func() bool { return upload.info().Max_pacing_rate == expected },
			func() any { return upload.info().Max_pacing_rate }, expected)
	}
	paced(500_000)
	w.order(hand, capOf(near, far, 0, 2))
	paced(before)
	w.order(hand, slow)
	paced(500_000)
	w.order(hand)
	paced(before)
}

func TestTheFloorStandsOnAPathThatLosesAndNotOnOneThatIsDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.room(30_000)
	hand := w.hand()
	upload := w.upload(far, false)
	w.runs(hand)
	w.order(hand, capOf(near, far, 40, 60))
	upload.awaitWindow(40, 60)
	lost := upload.info().Total_retrans
	for seen, before := 0, upload.info(); seen < 100 || before.Total_retrans < lost+100; {
		now := upload.info()
		// The kernel reads the window first and the state after it has got the lock: they belong together when nothing came.
		if now.Ca_state == caOpen && now.Segs_in == before.Segs_in {
			seen++
			if !between(now.Snd_cwnd, 40, 60) {
				t.Fatalf("%d segments, expected 40 to 60", now.Snd_cwnd)
			}
		}
		before = now
	}
	w.host.Blacken("wifi", "10.1.0.254")
	await(t, func() bool { return upload.info().Snd_cwnd < 5 }, func() any { return upload.info().Snd_cwnd }, "a few")
	if now := upload.info(); now.Ca_state != caLoss {
		t.Fatalf("state %d, expected that of loss", now.Ca_state)
	}
	w.host.Run("ip", "neigh", "del", "10.1.0.254", "dev", "wifi")
	upload.awaitWindow(40, 60)
}

const (
	caOpen = 0
	caLoss = 4
)

func TestASocketThatChoosesItsOwnIsHeldAndGetsItBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hand := w.hand()
	upload := w.upload(far, false)
	w.runs(hand)
	w.order(hand, capOf(near, far, 0, 10))
	upload.awaitWindow(0, 10)
	upload.option(func(socket int) error {
		return unix.SetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION, "cubic")
	})
	await(t, upload.held, func() any { return upload.control() }, "ours")
	w.order(hand)
	if now := upload.control(); now != "cubic" {
		t.Fatalf("%s, expected cubic", now)
	}
}
