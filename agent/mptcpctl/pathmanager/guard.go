// SPDX-License-Identifier: Apache-2.0

package pathmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"

	"golang.org/x/sys/unix"

	"bicast/internal/claim"
	"bicast/mptcp"
)

// Lines that the guard writes to its agent.
const (
	holding = "holding"
	wait    = "waiting for another agent's guard"
)

// seat is the claim of a guard. Each network namespace has one, and further guards wait for it.
const seat = "path manager"

// Guard is the main function of the guard process. It holds the namespace until its input ends, closes its output
// when the path manager is restored, and returns when no connection needs it any more. It keeps its marker file in
// directory.
func Guard(netns, directory string, in io.Reader, out io.WriteCloser) error {
	ignoreSignals()
	handle, events, cancel, err := eventsOf(netns)
	if err != nil {
		return err
	}
	defer handle.Close()
	defer cancel()
	marker, err := markOf(handle, directory)
	if err != nil {
		return err
	}
	inputClosed := make(chan struct{})
	go func() {
		defer close(inputClosed)
		io.Copy(io.Discard, in)
	}()
	if err := hold(handle, marker, events, inputClosed, out); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	listen(handle, events)
	return nil
}

// ignoreSignals keeps the guard alive when signals end the agent, and when nobody reads its output (SIGPIPE).
func ignoreSignals() { signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE) }

// eventsOf opens a namespace and subscribes to its events.
func eventsOf(netns string) (*mptcp.Handle, <-chan mptcp.Event, context.CancelFunc, error) {
	handle, err := mptcp.Open(netns)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := handle.Events(ctx)
	if err != nil {
		cancel()
		return nil, nil, nil, errors.Join(err, handle.Close())
	}
	return handle, events, cancel, nil
}

// hold keeps the namespace under the userspace path manager while the agent is alive.
func hold(
	handle *mptcp.Handle, marker mark, events <-chan mptcp.Event, inputClosed <-chan struct{}, out io.Writer,
) (err error) {
	mine, err := awaitSeat(handle, inputClosed, out)
	if err != nil || mine == nil {
		return err
	}
	defer mine.Close()
	if err := marker.put(); err != nil {
		return err
	}
	if err := set(handle, userspace); err != nil {
		return errors.Join(err, marker.remove())
	}
	defer func() { err = errors.Join(err, restore(handle, marker)) }()
	fmt.Fprintln(out, holding)
	for {
		select {
		case <-inputClosed:
			return nil
		case _, open := <-events:
			if !open {
				return errors.New("the event stream of the kernel ended, so the kernel would refuse joins")
			}
		}
	}
}

// awaitSeat takes the namespace's seat when it is free. It returns nil if the agent ends before that.
func awaitSeat(handle *mptcp.Handle, inputClosed <-chan struct{}, out io.Writer) (io.Closer, error) {
	mine, err := takeSeat(handle)
	if !errors.Is(err, claim.ErrTaken) {
		return mine, err
	}
	fmt.Fprintln(out, wait)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-inputClosed:
			cancel()
		case <-ctx.Done():
		}
	}()
	mine, err = claim.Await(ctx, handle.Do, seat)
	if errors.Is(err, context.Canceled) {
		return nil, nil
	}
	return mine, err
}

// listen waits until no connection needs the guard.
func listen(handle *mptcp.Handle, events <-chan mptcp.Event) {
	for needed(handle) && connectionClosed(events) {
	}
}

// connectionClosed waits until a connection has closed. It returns false at the end of the event stream.
func connectionClosed(events <-chan mptcp.Event) bool {
	for event := range events {
		if event.Kind == mptcp.ConnectionClosed || event.Kind == 0 { // 0: events were lost
			return true
		}
	}
	return false
}

// needed reports whether a connection is under the userspace path manager, which would refuse joins without a
// listener.
func needed(handle *mptcp.Handle) bool {
	connections, err := handle.Connections()
	if err != nil {
		return false
	}
	for _, c := range connections {
		if c.Token == 0 || c.Inode == 0 { // without an inode: no process has the socket, and the kernel is closing it
			continue
		}
		if manager, err := handle.PathManagerOf(c); err == nil && manager == mptcp.UserspaceManager {
			return true
		}
	}
	return false
}
