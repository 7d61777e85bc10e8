// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/clock"
	"bicast/internal/lab"
	"bicast/internal/timestamping"
)

// patience bounds every wait. A loaded machine may stall for a while.
const patience = time.Minute

// link is a sender at the client and a reflector at the server of the path wifi.
type link struct {
	t              *testing.T
	client, server *lab.Host
	reflector      *Reflector
	sender         *Sender
}

func newLink(t *testing.T, key []byte) *link {
	r := &link{t: t}
	r.client, r.server = lab.Two(t)
	r.server.Do(func() (err error) {
		r.reflector, err = Listen(netip.MustParseAddrPort("10.1.0.2:0"), "")
		return err
	})
	if err := r.reflector.Open(Session{ID: 7, Key: key, From: netip.MustParseAddr("10.1.0.1"), Stateful: true}); err != nil {
		t.Fatal(err)
	}
	r.run(r.reflector.Run)
	r.sender = r.dial(Target{To: r.reflector.Local(), Device: "wifi", ID: 7, Key: key, Stateful: true})
	return r
}

func (r *link) dial(target Target) *Sender {
	var sender *Sender
	r.client.Do(func() (err error) {
		sender, err = Dial(target)
		return err
	})
	r.t.Cleanup(sender.Close)
	return sender
}

// run runs work until the test ends, and requires it to return then.
func (r *link) run(work func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(patience):
			r.t.Error("it did not end")
		}
	})
}

func (r *link) await(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("timeout waiting until %s: %+v, %+v, %+v", what, r.sender.Windows(), r.sender.Sending(), r.reflector.Counts())
		}
	}
}

func TestSenderSeesAPeerThatStops(t *testing.T) {
	t.Parallel()
	r := newLink(t, testKey)
	r.run(r.sender.Run)
	r.await("a window is full, and none of it is lost", func() bool {
		w := r.sender.Windows()[1]
		return w.Sent >= 8 && w.Lost == 0 && w.Least > 0 && w.Least < 100*time.Millisecond && w.OneWay != nil
	})
	r.reflector.Close()
	r.await("nothing is answered", func() bool { w := r.sender.Windows()[0]; return w.Sent > 0 && w.Lost == w.Sent })
	if s := r.sender.Sending(); s.Refused == 0 || s.Unsent != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestAnswerHasTheTTLWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newLink(t, nil)
	r.run(r.sender.Run)
	r.await("answers come", func() bool { return r.sender.Sending().Answered > 1 })
	var conn net.Conn
	r.client.Do(func() (err error) {
		conn, err = net.Dial("udp", r.reflector.Local().String())
		return err
	})
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	for _, format := range []Estimate{0, inPTP} {
		asked := Packet{Number: 11, Session: 12, Estimate: NewEstimate(true, time.Millisecond) | format}
		asked.Time = asked.Estimate.Wire(time.Now().UnixNano())
		conn.Write(append(asked.Seal(nil), make([]byte, 500)...))
		b := make([]byte, bufferBytes)
		n, err := conn.Read(b)
		a, ok := OpenAnswer(nil, b[:n])
		copied := asked
		copied.Session = 0
		if err != nil || !ok || n != plain.length || a.To != copied || a.Session != 12 || a.TTL != 64 || a.Estimate&inPTP != format {
			t.Fatalf("%+v of %d bytes (%v)", a, n, err)
		}
		came, left := a.Estimate.Nanoseconds(a.Received), a.Estimate.Nanoseconds(a.Time)
		if since := time.Since(time.Unix(0, came)); came > left || since < 0 || since > patience {
			t.Fatalf("it came at %d and left at %d", came, left)
		}
	}
}

func TestReflectorsDoNotAnswerEachOther(t *testing.T) {
	t.Parallel()
	r := newLink(t, nil)
	var other *Reflector
	r.client.Do(func() (err error) {
		other, err = Listen(netip.AddrPortFrom(netip.MustParseAddr("10.1.0.1"), r.reflector.Local().Port()), "")
		return err
	})
	if err := other.Open(Session{From: r.reflector.Local().Addr()}); err != nil {
		t.Fatal(err)
	}
	r.run(other.Run)
	if _, err := other.socket.Answer(Packet{Number: 1}.Seal(nil), timestamping.Event{From: r.reflector.Local()}); err != nil {
		t.Fatal(err)
	}
	r.await("a packet is counted", func() bool { return r.reflector.Counts() != Counts{} })
	expect(t, r.reflector.Counts(), Counts{Strange: 1})
}

func TestSenderIgnoresInvalidAnswers(t *testing.T) {
	t.Parallel()
	r := newLink(t, testKey)
	var far net.PacketConn
	r.server.Do(func() (err error) {
		far, err = net.ListenPacket("udp", "10.1.0.2:0")
		return err
	})
	defer far.Close()
	sender := r.dial(Target{To: netip.MustParseAddrPort(far.LocalAddr().String()), Key: testKey, Stateful: true})
	r.run(sender.Run)
	b := make([]byte, bufferBytes)
	far.SetDeadline(time.Now().Add(patience))
	n, to, err := far.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	asked, ok := OpenPacket(testKey, b[:n])
	if !ok {
		t.Fatalf("%x is no packet", b[:n])
	}
	answer := Answer{Packet: Packet{Time: asked.Time, Estimate: asked.Estimate}, Received: asked.Time, To: asked}
	otherTime, otherNumber := answer, answer
	otherTime.To.Time++
	otherNumber.To.Number += 64
	wrong := [][]byte{
		b[:n], nil, answer.Seal(testKey)[:111], answer.Seal(nil), answer.Seal(bytes.Repeat([]byte{1}, 32)),
		otherTime.Seal(testKey), otherNumber.Seal(testKey),
	}
	for _, each := range wrong {
		far.WriteTo(each, to)
	}
	r.await("all are seen to be wrong", func() bool { return sender.Sending().Wrong == uint64(len(wrong)) })
	expect(t, sender.Sending().Answered, 0)
	for range 2 {
		far.WriteTo(answer.Seal(testKey), to)
	}
	r.await("the second is seen to be wrong", func() bool { return sender.Sending().Wrong == uint64(len(wrong))+1 })
	expect(t, sender.Sending().Answered, 1)
}

func TestSenderCountsLossWhileTheDeviceIsDown(t *testing.T) {
	t.Parallel()
	r := newLink(t, testKey)
	r.run(r.sender.Run)
	r.await("answers come", func() bool { return r.sender.Sending().Answered > 0 })
	r.client.Run("ip", "link", "set", "wifi", "down")
	r.await("all is lost", func() bool { w := r.sender.Windows()[0]; return w.Sent > 0 && w.Lost == w.Sent })
	r.client.Run("ip", "link", "set", "wifi", "up")
	r.client.Run("ip", "-4", "route", "replace", "10.1.0.0/24", "dev", "wifi")
	r.await("answers come again, and the direction is known", func() bool {
		w := r.sender.Windows()[1]
		return w.Lost > 0 && w.Lost == w.LostThere
	})
}

func TestSenderPacesWithoutBursts(t *testing.T) {
	t.Parallel()
	r := newLink(t, testKey)
	began := time.Now()
	r.run(r.sender.Run)
	r.await("some were sent", func() bool { return r.sender.Sending().Sent >= 15 })
	if took := time.Since(began); took < 1350*time.Millisecond {
		t.Fatalf("15 packets were sent within %v", took)
	}
	r.sender.lock.Lock()
	defer r.sender.lock.Unlock()
	for i, each := range r.sender.history.trips {
		if i > 0 && each.sent <= r.sender.history.trips[i-1].sent {
			t.Fatalf("%+v", r.sender.history.trips)
		}
	}
}

func TestSenderSurvivesAStepOfOurClock(t *testing.T) {
	t.Parallel()
	s := newLink(t, testKey).sender
	for number, set := range []time.Duration{0, time.Hour, 0} {
		s.send()
		sent := s.history.trips[number].sent
		heard := clock.Instant{At: sent + 30*time.Millisecond, Wall: int64(s.out[number].offset + sent + 30*time.Millisecond + set)}
		asked := Packet{Number: uint32(number), Time: s.out[number].wire}
		a := Answer{Packet: Packet{Number: uint32(number), Time: asked.Time}, Received: asked.Time, To: asked}
		s.answered(heard, timestamping.Event{At: heard.Wall}, a.Seal(testKey))
	}
	w := s.history.Windows(s.history.trips[2].sent + 1500*time.Millisecond)[0]
	expect(t, [2]int{w.Sent, w.Lost}, [2]int{3, 0})
	closeTo(t, "the round trips", w.NinetyFive, 30*time.Millisecond, time.Millisecond)
	if w.OneWay == nil {
		t.Fatal(w.Why)
	}
}
