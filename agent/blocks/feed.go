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
	patience = 200 * time.Millisecond // with who has not read hundreds of lines
	// Places at the feed: who leaks connections takes its own process's, and a user no other user's.
	ofAProcess = 4
	ofAUser    = 64
	ofAll      = 512
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
	news chan News // of one place: what was not taken yet is replaced
}

func newFeed(path string, log *slog.Logger) *feed {
	return &feed{path: path, log: log, clients: map[*client]bool{}}
}

// tell waits for nobody.
func (d *feed) tell(news News) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	alike := d.news.alike(news)
	d.news = news
	if alike {
		return
	}
	for each := range d.clients {
		each.put(news)
	}
}

// serve is over when the context is, or when the socket cannot be had.
func (d *feed) serve(ctx context.Context) error {
	listener, place, err := d.open()
	if err != nil {
		return err
	}
	defer place.Close() // and with it the lock, last
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close() // takes the file away
	var served sync.WaitGroup
	defer served.Wait()
	defer d.sendAway()
	for {
		conn, err := listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no file descriptors, for one
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if one := d.let(conn); one != nil {
			served.Add(1)
			go func() {
				defer served.Done()
				d.attend(one)
			}()
		}
	}
}

// open takes the place of an agent that has gone, and of no other.
func (d *feed) open() (*net.UnixListener, *os.File, error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		return nil, nil, err
	}
	place, err := os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(place.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who, _ := os.ReadFile(d.path + ".lock")
		place.Close()
		return nil, nil, fmt.Errorf("process %s serves %s already: one agent is enough, end one of them",
			strings.TrimSpace(string(who)), d.path)
	}
	listener, err := d.listen(place)
	if err != nil {
		place.Close()
		return nil, nil, err
	}
	return listener, place, nil
}

func (d *feed) listen(place *os.File) (*net.UnixListener, error) {
	if err := place.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := place.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return nil, err
	}
	there, err := os.Lstat(d.path)
	switch {
	case err == nil && there.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket: move it away", d.path)
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
	if err := os.Chmod(d.path, 0o666); err != nil { // who may connect may read
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// let is nil for whom there is no place.
func (d *feed) let(conn *net.UnixConn) *client {
	one := &client{conn: conn, news: make(chan News, 1)}
	if err := one.identify(); err != nil {
		conn.Close()
		return nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.room(one.who) {
		conn.Close()
		return nil
	}
	d.clients[one] = true
	one.put(d.news)
	return one
}

// room is looked for under the mutex.
func (d *feed) room(who unix.Ucred) bool {
	process, user := 0, 0
	for each := range d.clients {
		if each.who.Pid == who.Pid {
			process++
		}
		if each.who.Uid == who.Uid {
			user++
		}
	}
	return process < ofAProcess && user < ofAUser && len(d.clients) < ofAll
}

// attend ends with the client, when it hangs up, says something, or does not read.
func (d *feed) attend(one *client) {
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
	go func() { // ends when the connection does
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

// sendAway ends all who are attended.
func (d *feed) sendAway() {
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

// put is called by one at a time, under the mutex.
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
	if err := c.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return err
}
