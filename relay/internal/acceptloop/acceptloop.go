// SPDX-License-Identifier: Apache-2.0

// Package acceptloop accepts TCP connections and serves each in a goroutine of its own.
package acceptloop

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

const pause = 50 * time.Millisecond // where the host has no descriptor left

// Serve ends when the context does, and all guests have.
func Serve(ctx context.Context, listener *net.TCPListener, guest func(context.Context, *net.TCPConn)) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var guests sync.WaitGroup
	defer guests.Wait()
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case err == nil:
			guests.Add(1)
			go func() {
				defer guests.Done()
				guest(ctx, conn)
			}()
			runtime.Gosched() // who has come is served before more are let in
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			time.Sleep(pause)
		}
	}
}
