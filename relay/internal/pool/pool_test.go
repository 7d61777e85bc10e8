// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
	"bicast/relay/internal/carry"
	"bicast/relay/server"
)

const within = time.Minute

// relay counts the connections that it accepted, and answers no requests.
type relay struct {
	t        *testing.T
	files    mtls.Files
	at       string
	listener *net.TCPListener
	in       chan *carry.Secure
	silent   atomic.Bool // ignores new connections
}

func (r *relay) open() {
	r.t.Helper()
	config, err := mtls.Relay(r.files, []string{"home"})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.listener, err = server.Listen(context.Background(), netip.MustParseAddrPort(r.at), ""); err != nil {
		r.t.Fatal(err)
	}
	r.at = r.listener.Addr().String()
	listener := r.listener
	r.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			end := carry.Server(conn, config)
			if end.Handshake(context.Background(), within) == nil {
				r.in <- end
			} else {
				end.Close()
			}
		}
	}()
}

func begin(t *testing.T, shown string) (*relay, *Pool, chan error) {
	t.Helper()
	authority := mtlstest.New(t)
	r := &relay{t: t, files: authority.Relay("tokyo"), at: "127.0.0.1:0", in: make(chan *carry.Secure, 1000)}
	r.open()
	config, err := mtls.Gateway(authority.Gateway(shown, time.Hour), "tokyo")
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan error, 100)
	open := Opening(func(ctx context.Context) (*net.TCPConn, error) {
		conn, err := Dialer().DialContext(ctx, "tcp", r.at)
		if err != nil {
			return nil, err
		}
		return conn.(*net.TCPConn), nil
	}, func() (*tls.Config, error) { return config, nil })
	pool := New(func(ctx context.Context) (*carry.Secure, error) {
		if r.silent.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return open(ctx)
	}, func(err error) { changes <- err }, NewTurns())
	ctx, cancel := context.WithCancel(context.Background())
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		pool.Keep(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-kept
	})
	return r, pool, changes
}

func await[T any](t *testing.T, what string, from <-chan T) (one T) {
	t.Helper()
	select {
	case one = <-from:
	case <-time.After(within):
		t.Fatalf("%s: not within %v", what, within)
	}
	return one
}

func TestPoolOpensConnectionsInAdvance(t *testing.T) {
	r, pool, _ := begin(t, "home")
	for range stored {
		await(t, "the pool is filled", r.in)
	}
	taken, err := pool.Take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Reset()
	if err := taken.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	taken.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := taken.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("what was taken reads %v, expected it to be open and silent", err)
	}
	await(t, "another one takes its place", r.in).Reset()
}

// A relay behaves like this if the gateway has too many connections.
func TestPoolWaitsWhenTheRelayClosesNewConnections(t *testing.T) {
	r, pool, _ := begin(t, "home")
	pool.Least(1)
	const counted = 5 * retryInterval / 2
	asked, began := 0, time.Now()
	for asked < 2 || time.Since(began) < counted {
		end := await(t, "the relay is asked again", r.in)
		asked++
		time.AfterFunc(time.Millisecond, end.Reset)
	}
	if most := stored * int(time.Since(began)/retryInterval); asked > max(2*stored, most) {
		t.Fatalf("a relay that ends what was just opened is asked %d times in %v, expected once a second", asked, time.Since(began))
	}
}

func TestPoolNoticesARelayThatStopsAndReturns(t *testing.T) { endsAndIsBack(t) }

func TestTimedTakeFailsAtOnceWhenTheRelayStops(t *testing.T) {
	if took := endsAndIsBack(t); took > callerTimeout/2 {
		t.Fatalf("the pool reports an unreachable relay after %v, expected at once", took)
	}
}

// endsAndIsBack returns how long a caller waited for the error.
func endsAndIsBack(t *testing.T) (took time.Duration) {
	r, pool, changes := begin(t, "home")
	r.listener.Close()
	hangUp := func() {
		for {
			select {
			case end := <-r.in:
				end.Reset()
			default:
				return
			}
		}
	}
	late := time.After(within)
	for gone := false; !gone; {
		select {
		case err := <-changes:
			gone = err != nil
		case <-time.After(10 * time.Millisecond):
			hangUp()
		case <-late:
			t.Fatal("it is not known that the relay has ended")
		}
	}
	for {
		before := time.Now()
		end, err := pool.Take(context.Background())
		if err != nil {
			took = time.Since(before)
			break
		}
		end.Reset()
	}
	if pool.Heard().Err() != nil {
		t.Fatal("the pool treats a refusing relay as silent; it may still answer open connections")
	}
	r.open()
	for await(t, "the relay is found again", changes) != nil {
	}
	end, err := pool.Take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	end.Reset()
	return took
}

func TestTakeFailsForAnUnauthorizedGateway(t *testing.T) {
	_, pool, changes := begin(t, "elsewhere")
	if err := await(t, "it is said", changes); err == nil {
		t.Fatal("the pool reports the relay as reachable")
	}
	if end, err := pool.Take(context.Background()); err == nil {
		end.Reset()
		t.Fatal("there is a connection")
	}
}

func TestSilentRelayIsUnreachableDespiteIdleConnections(t *testing.T) {
	r, pool, changes := begin(t, "home")
	for range stored {
		await(t, "the pool is filled", r.in)
	}
	r.silent.Store(true)
	one, err := pool.Take(context.Background()) // the replacement is never answered
	if err != nil {
		t.Fatal(err)
	}
	one.Reset()
	waits := pool.Heard()
	if err := await(t, "it is found out", changes); err == nil {
		t.Fatal("the pool reports the relay as reachable")
	}
	await(t, "who waits for an answer is told", waits.Done())
	if one, err := pool.Take(context.Background()); err == nil {
		one.Reset()
		t.Fatal("a connection is given that waits at a silent relay")
	}
}

// A relay evicts some connections if too many are unauthenticated.
func TestHundredsOfCallersOpenFewAtOnce(t *testing.T) {
	const many = 4 * maxCallers
	opening, opened := make(chan bool, many), make(chan bool)
	pool := New(func(context.Context) (*carry.Secure, error) {
		opening <- true
		<-opened
		return &carry.Secure{}, nil
	}, nil, NewTurns())
	took := make(chan error, many)
	for range many {
		go func() {
			_, err := pool.Take(context.Background())
			took <- err
		}()
	}
	for range maxCallers {
		await(t, "as many as may be are opened", opening)
	}
	select {
	case <-opening:
		t.Errorf("more than %d are opened at once", maxCallers)
	case <-time.After(100 * time.Millisecond):
	}
	close(opened)
	for range many {
		if err := await(t, "all have one", took); err != nil {
			t.Fatal(err)
		}
	}
}

// slow returns a pool whose relay answers at once, except for one opening.
func slow(t *testing.T) (pool *Pool, stuck chan struct{}) {
	t.Helper()
	var opened atomic.Int64
	stuck = make(chan struct{})
	return New(func(ctx context.Context) (*carry.Secure, error) {
		if opened.Add(1) == 1 {
			close(stuck)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &carry.Secure{}, nil
	}, nil, NewTurns()), stuck
}

func TestSlowOpeningDoesNotMakeALiveRelayUnreachable(t *testing.T) {
	for late := time.Now().Add(within); ; {
		stalled, err := answersOthers(t)
		if err == nil {
			return
		}
		if !stalled || time.Now().After(late) { // a stalled machine stalls the relay, too
			t.Fatal(err)
		}
	}
}

// answersOthers returns the failure, and whether the machine stalled the relay.
func answersOthers(t *testing.T) (stalled bool, err error) {
	t.Helper()
	pool, stuck := slow(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*callerTimeout)
	defer cancel()
	gaveUp := make(chan error, 1)
	go func() {
		_, err := pool.Take(ctx)
		gaveUp <- err
	}()
	<-stuck
	for last := time.Now(); ctx.Err() == nil; {
		if _, err := pool.Take(context.Background()); err != nil {
			return stalled, fmt.Errorf("while one opening is not answered another one's fails: %w", err)
		}
		time.Sleep(callerTimeout / 10)
		stalled = stalled || time.Since(last) > callerTimeout/2
		last = time.Now()
	}
	if err := await(t, "who waits gives up with his own context", gaveUp); !errors.Is(err, context.DeadlineExceeded) {
		return stalled, fmt.Errorf("the slow opening ended with %w, expected it to be waited for while the relay answers others", err)
	}
	if _, err := pool.Stored(); err != nil {
		return stalled, fmt.Errorf("the pool reports the relay as unreachable: %w", err)
	}
	return stalled, nil
}

func TestCancelledTakeDoesNotMarkTheRelay(t *testing.T) {
	pool, stuck := slow(t)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-stuck
		cancel()
	}()
	if _, err := pool.Take(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("opening returns %v, expected it to end with its caller's context", err)
	}
	if _, err := pool.Stored(); err != nil {
		t.Fatalf("the pool reports the relay as unreachable: %v", err)
	}
}

func TestPoolsOfARelayShareTheLimitOfOpenings(t *testing.T) {
	const pools = maxSharedOpenings/maxCallers + 2
	opening, release := make(chan bool, pools*maxCallers), make(chan bool)
	open := func(context.Context) (*carry.Secure, error) {
		opening <- true
		<-release
		return &carry.Secure{}, nil
	}
	turns := NewTurns()
	took := make(chan error, pools*maxCallers)
	for range pools {
		pool := New(open, nil, turns)
		for range maxCallers {
			go func() {
				_, err := pool.Take(context.Background())
				took <- err
			}()
		}
	}
	for range maxSharedOpenings {
		await(t, "as many as may be are opened", opening)
	}
	select {
	case <-opening:
		t.Errorf("more than %d are opened at once", maxSharedOpenings)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	for range pools * maxCallers {
		if err := await(t, "all have one", took); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeepAliveMatchesADialledConnection(t *testing.T) {
	r, _, _ := begin(t, "home")
	conn, err := Dialer().Dial("tcp", r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	raw.Control(func(fd uintptr) { idle, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) })
	if said := KeepAlive(); (said == nil) != (idle == int(keepAlive.Idle.Seconds())) {
		t.Fatalf("KeepAlive returns %v, but the socket's keepalive starts after %d s", said, idle)
	}
}
