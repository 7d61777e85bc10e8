package trust_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"bicast/agent/internal/brain"
	"bicast/agent/trust"
)

// Somebody else's server, where it listens.
func stranger(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

func TestWhereJoiningCannotBeIsSaidWithWhatIsThereAndWhatToDo(t *testing.T) {
	b := brain.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	for name, c := range map[string]struct {
		address string
		says    []string
	}{
		"nobody": {nobody, []string{"nobody answers at " + nobody + " (connection refused)", "does it run"}},
		"no TLS": {stranger(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 1))
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), []string{"is no controller (it does not speak TLS)", "`bicast enroll`"}},
		"hangs up":       {stranger(t, func(net.Conn) {}), []string{"it hung up before it said who it is", "`bicast enroll`"}},
		"the wrong door": {b.Sessions, []string{b.Sessions, "controller.agents.join", "not controller.agents.listen"}},
		"another's":      {brain.New(t).Enrolment, []string{"was told nothing", "fingerprint in the token"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), brain.Patience)
			defer cancel()
			_, err := trust.Join(ctx, c.address, "phone", b.Token("phone"))
			says(t, err, c.says...)
			for _, raw := range []string{"desc =", "transport:", "rpc error"} {
				if strings.Contains(err.Error(), raw) {
					t.Fatalf("said %q, expected no words of gRPC's such as %q", err, raw)
				}
			}
		})
	}
}
