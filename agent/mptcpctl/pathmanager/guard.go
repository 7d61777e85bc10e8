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

// What the guard says to its agent.
const (
	holding = "holding"
	wait    = "waiting for another agent's guard"
)

// seat is the claim of a guard: there is one in each network namespace, and the next one waits its turn.
const seat = "path manager"

// Guard is the process: it holds the namespace until its input ends, closes its output when the namespace is handed
// back, and returns when nobody needs it any more. The directory is where it notes that the namespace is held.
func Guard(netns, directory string, in io.Reader, out io.WriteCloser) error {
	ignoreEnds()
	handle, events, cancel, err := eventsOf(netns)
	if err != nil {
		return err
	}
	defer handle.Close()
	defer cancel()
	noted, err := markOf(handle, directory)
	if err != nil {
		return err
	}
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		io.Copy(io.Discard, in)
	}()
	if err := hold(handle, noted, events, orphaned, out); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	listen(handle, events)
	return nil
}

// What ends the agent ends a guard by that, and not before; and that nobody reads what it says (SIGPIPE) does not end it.
func ignoreEnds() { signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE) }

// eventsOf takes hold of a namespace and listens to its events.
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

// hold keeps the namespace under the userspace path manager while the agent lives.
func hold(
	handle *mptcp.Handle, noted mark, events <-chan mptcp.Event, orphaned <-chan struct{}, out io.Writer,
) (err error) {
	mine, err := sit(handle, orphaned, out)
	if err != nil || mine == nil {
		return err
	}
	defer mine.Close()
	if err := noted.put(); err != nil {
		return err
	}
	if err := set(handle, userspace); err != nil {
		return errors.Join(err, noted.remove())
	}
	defer func() { err = errors.Join(err, giveBack(handle, noted)) }()
	fmt.Fprintln(out, holding)
	for {
		select {
		case <-orphaned:
			return nil
		case _, open := <-events:
			if !open {
				return errors.New("the kernel tells no events any more, so joins would be refused")
			}
		}
	}
}

// sit takes the namespace's seat, or waits for the guard that has it; nil when the agent ends before that.
func sit(handle *mptcp.Handle, orphaned <-chan struct{}, out io.Writer) (io.Closer, error) {
	mine, err := takeSeat(handle)
	if !errors.Is(err, claim.ErrTaken) {
		return mine, err
	}
	fmt.Fprintln(out, wait)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-orphaned:
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

// listen is for the connections that are left.
func listen(handle *mptcp.Handle, events <-chan mptcp.Event) {
	for needed(handle) && connectionClosed(events) {
	}
}

// connectionClosed listens until one has ended; false is when the kernel tells nothing any more.
func connectionClosed(events <-chan mptcp.Event) bool {
	for event := range events {
		if event.Kind == mptcp.ConnectionClosed || event.Kind == 0 { // 0: some were lost
			return true
		}
	}
	return false
}

// Whether there is a connection under the userspace path manager, which would refuse joins without us.
func needed(handle *mptcp.Handle) bool {
	connections, err := handle.Connections()
	if err != nil {
		return false
	}
	for _, c := range connections {
		if c.Token == 0 || c.Inode == 0 { // without an inode: no process has it any more, and the kernel is burying it
			continue
		}
		if manager, err := handle.PathManagerOf(c); err == nil && manager == mptcp.UserspaceManager {
			return true
		}
	}
	return false
}
