// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
)

// tunnel opens TLS to the relay from the gateway's host.
func (r *road) tunnel() *tls.Conn {
	r.t.Helper()
	config, err := mtls.Gateway(r.home(), "tokyo")
	if err != nil {
		r.t.Fatal(err)
	}
	conn := tls.Client(r.knock(r.gateway), config)
	conn.SetDeadline(time.Now().Add(within))
	if err := conn.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

func (r *road) knock(from *lab.Host) net.Conn {
	r.t.Helper()
	var conn net.Conn
	from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", door, within)
		return err
	})
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestBytesBehindARequestBelongToTheTunnel(t *testing.T) {
	r := newRoad(t)
	r.serves("80", echo)
	r.relays()
	const asked = "CONNECT 45.0.0.2:80 HTTP/1.1\r\nHost: 45.0.0.2:80\r\n\r\n"

	conn := r.tunnel()
	io.WriteString(conn, asked+asked) // the second one is the server's
	conn.CloseWrite()
	all, err := io.ReadAll(conn)
	if want := "HTTP/1.1 200 Connected\r\n\r\n" + relay4 + "\n" + asked; err != nil || string(all) != want {
		t.Fatalf("it answers %q (%v), expected %q", all, err, want)
	}

	for refused, code := range map[string]int{
		"CONNECT 10.0.0.1:80 HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n":                    http.StatusForbidden,
		"CONNECT 45.0.0.2:8098 HTTP/1.1\r\nHost: 45.0.0.2:8098\r\n\r\n":                http.StatusBadGateway,
		"CONNECT 45.0.0.2:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 52\r\n\r\n":        http.StatusBadRequest,
		"GET http://45.0.0.2/ HTTP/1.1\r\nHost: 45.0.0.2\r\n\r\n":                      http.StatusBadRequest,
		"CONNECT 45.0.0.2:80 HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n": http.StatusBadRequest,
	} {
		conn := r.tunnel()
		io.WriteString(conn, refused+asked) // a terminal may send before the answer
		lines := bufio.NewReader(conn)
		answer, err := http.ReadResponse(lines, nil)
		if err != nil || answer.StatusCode != code {
			t.Fatalf("%.60q is answered by %v (%v), expected %d", refused, answer, err, code)
		}
		if why, err := io.ReadAll(answer.Body); err != nil || len(why) < 10 {
			t.Fatalf("%.60q is refused because of %q (%v)", refused, why, err)
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Fatalf("behind the refusal of %.60q is %q (%v), expected the end", refused, rest, err)
		}
	}
}

func TestSilentPeersAreEvicted(t *testing.T) {
	r := newRoad(t)
	r.serves("80", nothing)
	r.relays()
	var silent []net.Conn
	for range 600 {
		silent = append(silent, r.knock(r.server))
	}
	if body, _ := r.curl(append(curled(r.home()), "http://"+server4+"/")...); strings.TrimSpace(body) != relay4 {
		t.Fatalf("a gateway reads %q beside %d strangers, expected %s", body, len(silent), relay4)
	}
	silent[0].SetReadDeadline(time.Now().Add(within))
	if _, err := silent[0].Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Fatalf("the first unauthenticated peer reads %v, expected its eviction", err)
	}
}

func TestMissingOptionsAreNamed(t *testing.T) {
	files := mtlstest.New(t).Relay("tokyo")
	shown := strings.Join(showing(files), " ")
	const inside = "--inside left --from 10.0.0.0/8 "
	for words, want := range map[string]string{
		"relay":                               "relay needs --listen",
		"relay --help":                        "usage: bicast-agent relay",
		"relay --listen 127.0.0.1:0 " + shown: "and --gateway",
		"relay --listen 127.0.0.1:0 --gateway home --allow-ports http " + shown:   "no list of ports",
		"relay --listen 127.0.0.1:0 --gateway home --congestion other " + shown:   `the congestion control "other" cannot be had`,
		"relay --listen 127.0.0.1:0 --gateway home " + shown + " --key /dev/null": "cannot use the certificate",
		"take":        "take needs --relay",
		"take --help": "usage: bicast-agent take",
		"take --relay a:1 --name a --port 5000 --fallback both " + inside + shown:                      "--fallback direct or block",
		"take --relay a:1 --name a --port 70000 --fallback block " + inside + shown:                    "take needs --relay",
		"take --relay a:1 --name a --port 5000 --fallback block --inside left " + shown:                "--inside and --from",
		"take --relay a:1 --name a --port 5000 --fallback block --from 10.0.0.0/8 " + shown:            "--inside and --from",
		"take --relay a:1 --name a --port 5000 --fallback block --inside a/b " + shown:                 "expected the name of a network device",
		"take --relay a:1 --name a --port 5000 --fallback block --from 10.0.0.1 " + shown:              "expected a network",
		"take --relay a:1 --name a --port 5000 --fallback block " + inside + shown + " --ca /dev/null": "cannot use the authority /dev/null",
	} {
		agent := exec.Command("/proc/self/exe", strings.Fields(words)...)
		agent.Env = append(os.Environ(), asAgent+"=1")
		if said, _ := agent.CombinedOutput(); !strings.Contains(string(said), want) {
			t.Errorf("%s: %q, expected %q in it", words, said, want)
		}
	}
}

func TestTakeRefusesDevicesPipesAndLongFiles(t *testing.T) {
	shown := strings.Join(showing(mtlstest.New(t).Relay("tokyo")), " ")
	long := filepath.Join(t.TempDir(), "long")
	if err := errors.Join(os.WriteFile(long, nil, 0o600), os.Truncate(long, 1<<30)); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"--certificate", "--key", "--ca"} {
		for _, file := range []string{"/dev/zero", long, pipe} {
			words := shown + " --inside left --from 10.0.0.0/8 " + option + " " + file
			text, code := refusal(t, words)
			if code != 1 || strings.Count(text, "\n") != 1 ||
				!strings.Contains(text, file) || !strings.Contains(text, "expected a regular file of at most 1048576 bytes") {
				t.Errorf("%s %s: exit code %d and %q, expected 1 and one line that says which file, and what was expected", option, file, code, text)
			}
		}
	}
}

func TestTakeRefusesImpossibleTerminals(t *testing.T) {
	shown := strings.Join(showing(mtlstest.New(t).Relay("tokyo")), " ")
	for more, want := range map[string]string{
		"--inside left --from 192.168.55.7/24":                 "expected 192.168.55.0/24",
		"--inside left --from fd07::7/64":                      "expected fd07::/64",
		"--inside left --from 10.0.0.0/8 --except 45.0.0.1/24": "expected 45.0.0.0/24",
		"--inside left --from 127.0.0.0/8":                     "expected a network of terminals",
		"--inside left --from ::1/128":                         "expected a network of terminals",
		"--from 10.0.0.0/8 --inside lo":                        "expected a device where terminals' packets arrive",
	} {
		text, code := refusal(t, shown+" "+more)
		if code != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: exit code %d and %q, expected 2 and one line with %q", more, code, text, want)
		}
	}
}

// refusal returns the output and exit code of `take`; -1: it was killed. Its memory is limited, since /dev/zero delivers a
// gigabyte per second.
func refusal(t *testing.T, words string) (string, int) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(ctx, "prlimit",
		strings.Fields("--data=1073741824 "+program+" take --relay a:1 --name a --port 5000 --fallback block "+words)...)
	agent.Env = append(os.Environ(), asAgent+"=1")
	said, _ := agent.CombinedOutput()
	return string(said), agent.ProcessState.ExitCode()
}
