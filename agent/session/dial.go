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
	pingAfter     = 10 * time.Second // gRPC's shortest
	pongWithin    = 5 * time.Second  // also how long the kernel goes on sending to nobody
	mostReceived  = 256 << 10        // no order is near that
	window        = 256 << 10        // said, so that gRPC does not measure for a better one, with a ping beside each word
	buffer        = 8 << 10
)

// Dialer connects, with the certificate that the directory holds then, to the sessions of the controller that is named
// beside it. `more` is for those who measure sessions.
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

// How every session connects: it fails fast, for the session itself tries again.
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
