// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	writeTimeout = 200 * time.Millisecond // for a client that has not read hundreds of lines
	// Limits of connections, so that a leaking process or user does not lock out others.
	maxPerProcess = 4
	maxPerUser    = 64
	maxClients    = 512
)

// feed is a Unix socket that streams the news as JSON lines to local programs: the current news first, then every change.
type feed struct {
	path string
	log  *slog.Logger

	mutex   sync.Mutex
	news    News
	clients map[*client]bool
}

type client struct {
	conn *net.UnixConn
	who  unix.Ucred
	news chan News // holds the latest news only
}

func newFeed(path string, log *slog.Logger) *feed {
	return &feed{path: path, log: log, clients: map[*client]bool{}}
}

// publish never blocks.
func (d *feed) publish(news News) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	equal := d.news.equal(news)
	d.news = news
	if equal {
		return
	}
	for each := range d.clients {
		each.put(news)
	}
}

// serve returns when the context ends, or when the socket cannot be opened.
func (d *feed) serve(ctx context.Context) error {
	listener, lockFile, err := d.open()
	if err != nil {
		return err
	}
	defer lockFile.Close() // releases the lock last
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close() // removes the socket file
	var served sync.WaitGroup
	defer served.Wait()
	defer d.disconnectAll()
	for {
		conn, err := listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // for example, out of file descriptors
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if one := d.admit(conn); one != nil {
			served.Add(1)
			go func() {
				defer served.Done()
				d.serveClient(one)
			}()
		}
	}
}

// open replaces the socket of an agent that has ended, but not that of a running agent.
func (d *feed) open() (*net.UnixListener, *os.File, error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		return nil, nil, err
	}
	lockFile, err := os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(lockFile.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who, _ := os.ReadFile(d.path + ".lock")
		lockFile.Close()
		return nil, nil, fmt.Errorf("process %s already serves %s: stop one of the two agents",
			strings.TrimSpace(string(who)), d.path)
	}
	listener, err := d.listen(lockFile)
	if err != nil {
		lockFile.Close()
		return nil, nil, err
	}
	return listener, lockFile, nil
}

func (d *feed) listen(lockFile *os.File) (*net.UnixListener, error) {
	if err := lockFile.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := lockFile.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return nil, err
	}
	there, err := os.Lstat(d.path)
	switch {
	case err == nil && there.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s exists and is not a socket: remove the file", d.path)
	case err == nil:
		err = os.Remove(d.path)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(d.path, 0o666); err != nil { // any local user can connect
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// admit returns nil if there is no room for another client.
func (d *feed) admit(conn *net.UnixConn) *client {
	one := &client{conn: conn, news: make(chan News, 1)}
	if err := one.identify(); err != nil {
		conn.Close()
		return nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.hasRoom(one.who) {
		conn.Close()
		return nil
	}
	d.clients[one] = true
	one.put(d.news)
	return one
}

// hasRoom needs the mutex.
func (d *feed) hasRoom(who unix.Ucred) bool {
	process, user := 0, 0
	for each := range d.clients {
		if each.who.Pid == who.Pid {
			process++
		}
		if each.who.Uid == who.Uid {
			user++
		}
	}
	return process < maxPerProcess && user < maxPerUser && len(d.clients) < maxClients
}

// serveClient returns when the client hangs up, sends anything or does not read.
func (d *feed) serveClient(one *client) {
	defer func() {
		one.conn.Close()
		d.mutex.Lock()
		defer d.mutex.Unlock()
		delete(d.clients, one)
	}()
	if one.write(<-one.news) != nil {
		return
	}
	gone := make(chan struct{})
	go func() { // ends with the connection
		defer close(gone)
		one.conn.Read(make([]byte, 1))
	}()
	for {
		select {
		case news := <-one.news:
			if one.write(news) != nil {
				return
			}
		case <-gone:
			return
		}
	}
}

// disconnectAll closes all connections.
func (d *feed) disconnectAll() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for each := range d.clients {
		each.conn.Close()
	}
}

func (c *client) identify() error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var who *unix.Ucred
	if control := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); control != nil {
		return control
	}
	if err != nil {
		return err
	}
	c.who = *who
	return nil
}

// put replaces news that the client has not taken yet. The caller holds the mutex.
func (c *client) put(news News) {
	select {
	case <-c.news:
	default:
	}
	c.news <- news
}

func (c *client) write(news News) error {
	line, err := json.Marshal(struct {
		Sharers    uint32 `json:"sharers"`
		BlockBytes uint32 `json:"block_bytes"`
		ValidMs    int64  `json:"valid_ms"`
	}{news.Sharers, news.BlockBytes, news.valid().Milliseconds()})
	if err != nil {
		return err
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return err
}
