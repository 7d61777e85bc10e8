// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"bicast/agent/trust"
)

const (
	connectWithin = 2 * time.Second
	pingAfter     = 10 * time.Second // the minimum of gRPC
	pongWithin    = 5 * time.Second  // also the timeout of unacknowledged data (TCP_USER_TIMEOUT)
	mostReceived  = 256 << 10        // above any order
	window        = 256 << 10        // fixed: otherwise gRPC estimates the bandwidth with a ping beside each message
	buffer        = 8 << 10
)

// Dialer returns a function that connects to the controller with the current identity in the directory. Benchmarks pass
// more options.
func Dialer(directory string, more ...grpc.DialOption) func() (*grpc.ClientConn, error) {
	return func() (*grpc.ClientConn, error) {
		identity, err := trust.Load(directory)
		if err != nil {
			return nil, err
		}
		mutual := grpc.WithTransportCredentials(credentials.NewTLS(identity.Mutual()))
		return grpc.NewClient("passthrough:///"+identity.Session, slices.Concat(options(), []grpc.DialOption{mutual}, more)...)
	}
}

// options make a connection fail fast, because the session retries.
func options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: connectWithin}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pongWithin}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostReceived)),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithReadBufferSize(buffer),
		grpc.WithWriteBufferSize(buffer),
	}
}
