package pool

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"bicast/relay/carry"
)

// Where a relay has gone without a word, connections end by this in some 8 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}

// Opener opens connections to the relay at host:port, with MPTCP where both have it.
func Opener(address string, config *tls.Config) func(context.Context) (*carry.Secure, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	dialer.SetMultipathTCP(true)
	return func(ctx context.Context) (*carry.Secure, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		end := carry.Client(conn.(*net.TCPConn), config)
		within := fillWithin
		if deadline, limited := ctx.Deadline(); limited {
			within = time.Until(deadline)
		}
		if err := end.Handshake(ctx, within); err != nil {
			end.Reset()
			return nil, err
		}
		if err := end.Welcomed(within); err != nil {
			end.Reset()
			return nil, err
		}
		return end, nil
	}
}
