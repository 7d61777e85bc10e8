package take

import "testing"

func TestATerminalThatOpensWhatItCanLeavesRoomToOthers(t *testing.T) {
	taker, greedy, other := &Taker{}, &Terminal{}, &Terminal{}
	for range 2 * mostTaken {
		if !taker.enter(greedy) {
			taker.leave(greedy)
		}
	}
	if n := greedy.Totals().Connections; n != mostTaken/2 {
		t.Fatalf("one alone has %d connections, expected half of %d", n, mostTaken)
	}
	for n := range mostTaken / 4 {
		if !taker.enter(other) {
			t.Fatalf("another one's connection %d is refused", n)
		}
	}
	for range mostTaken / 4 {
		taker.leave(greedy)
	}
	if !taker.enter(greedy) {
		t.Fatal("who has ended connections opens no other ones")
	}
}
