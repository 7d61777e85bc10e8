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

const pause = 50 * time.Millisecond // after an error, such as no free descriptor

// Serve returns when the context and all connections have ended.
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
			runtime.Gosched() // serve this connection before the next is accepted
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			time.Sleep(pause)
		}
	}
}
