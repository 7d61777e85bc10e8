// SPDX-License-Identifier: Apache-2.0

package httpconnect

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseReturnsTheWrittenTarget(t *testing.T) {
	for _, target := range []Target{
		Of(netip.MustParseAddrPort("45.0.0.2:443")), Of(netip.MustParseAddrPort("[2a0f::2]:80")), {Name: "example.com", Port: 65535},
		{Name: "xn--bcher-kva.example.", Port: 1},
		{Name: "a.example", Port: 1, For: netip.MustParseAddrPort("192.168.7.2:40000")},
		{Address: netip.MustParseAddr("2a0f::2"), Port: 80, For: netip.MustParseAddrPort("[fd07::2]:40000")},
	} {
		header, behind, err := Header(bytes.NewReader(append(target.Request(), "first"...)), make([]byte, HeaderBytes), nil)
		if err != nil || string(behind) != "first" {
			t.Fatalf("%v: %q behind the header, and %v", target, behind, err)
		}
		if read, err := Parse(header); err != nil || read != target {
			t.Fatalf("%v is read as %v (%v)", target, read, err)
		}
	}
	curls := "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: curl/7.88.1\r\nProxy-Connection: Keep-Alive"
	if read, err := Parse([]byte(curls)); err != nil || read != (Target{Name: "example.com", Port: 443}) {
		t.Fatalf("what curl asks is read as %v (%v)", read, err)
	}
}

func TestParseIgnoresAnInvalidSource(t *testing.T) {
	for _, value := range []string{"for=192.168.7.2", `for="192.168.7.2"`, `for="[fe80::1%eth0]:1"`, `for="_hidden"`, `for="1.2.3.4:1";by=x`, ""} {
		target, err := Parse([]byte("CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nForwarded: " + value))
		if err != nil || target.For.IsValid() {
			t.Errorf("%s is read as %v (%v)", value, target.For, err)
		}
	}
}

func TestParseRefusesAmbiguousRequests(t *testing.T) {
	const host = "\r\nHost: a.example:80"
	for _, header := range []string{
		"", "GET / HTTP/1.1" + host, "connect a.example:80 HTTP/1.1" + host, "CONNECT a.example:80 HTTP/1.0" + host,
		"CONNECT  a.example:80 HTTP/1.1" + host, "CONNECT a.example:80 HTTP/1.1 " + host, "CONNECT a.example:80" + host,
		"CONNECT http://a.example:80 HTTP/1.1" + host, "CONNECT user@a.example:80 HTTP/1.1" + host,
		"CONNECT a.example HTTP/1.1" + host, "CONNECT a.example: HTTP/1.1" + host, "CONNECT a.example:0 HTTP/1.1" + host,
		"CONNECT a.example:+80 HTTP/1.1" + host, "CONNECT a.example:080 HTTP/1.1" + host, "CONNECT a.example:65536 HTTP/1.1" + host,
		"CONNECT :80 HTTP/1.1" + host, "CONNECT a..example:80 HTTP/1.1" + host, "CONNECT -a.example:80 HTTP/1.1" + host,
		"CONNECT a.exämple:80 HTTP/1.1" + host, "CONNECT a\x00.example:80 HTTP/1.1" + host, "CONNECT a.example\x00:80 HTTP/1.1" + host,
		"CONNECT " + strings.Repeat("a.", 127) + "aa:80 HTTP/1.1" + host,
		"CONNECT 2130706433:80 HTTP/1.1" + host, "CONNECT 127.1:80 HTTP/1.1" + host, "CONNECT 0x7f.0.0.1:80 HTTP/1.1" + host,
		"CONNECT 127.0.0.0x1:80 HTTP/1.1" + host, "CONNECT 010.0.0.1:80 HTTP/1.1" + host,
		"CONNECT 2a0f::2:80 HTTP/1.1" + host, "CONNECT [2a0f::2:80 HTTP/1.1" + host, "CONNECT [45.0.0.2]:80 HTTP/1.1" + host,
		"CONNECT [fe80::1%eth0]:80 HTTP/1.1" + host, "CONNECT [a.example]:80 HTTP/1.1" + host,
		"CONNECT a.example:80 HTTP/1.1", "CONNECT a.example:80 HTTP/1.1" + host + host,
		"CONNECT a.example:80 HTTP/1.1" + host + "\r\nContent-Length: 5", "CONNECT a.example:80 HTTP/1.1" + host + "\r\ntransfer-encoding: chunked",
		"CONNECT a.example:80 HTTP/1.1" + host + "\r\n folded", "CONNECT a.example:80 HTTP/1.1" + host + "\r\nX : y",
		"CONNECT a.example:80 HTTP/1.1" + host + "\r\nno colon", "CONNECT a.example:80 HTTP/1.1" + host + "\nX: y",
		"CONNECT a.example:80 HTTP/1.1" + host + "\r\nX: a\rb", "CONNECT a.example:80 HTTP/1.1" + host + "\r\nX: a\x00b",
		"\r\nCONNECT a.example:80 HTTP/1.1" + host,
	} {
		if target, err := Parse([]byte(header)); err == nil {
			t.Fatalf("%q is read as %v, expected a refusal", header, target)
		}
	}
}

func TestHeaderAcceptsAnyFragmentation(t *testing.T) {
	whole := "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n"
	began := 0
	header, behind, err := Header(iotest.OneByteReader(strings.NewReader(whole+"more")), make([]byte, HeaderBytes), func() { began++ })
	if err != nil || string(header)+"\r\n\r\n" != whole || len(behind) != 0 || began != 1 {
		t.Fatalf("%q, %q, %v, begun %d times", header, behind, err, began)
	}
	if _, _, err := Header(strings.NewReader(whole[:40]), make([]byte, HeaderBytes), nil); !errors.Is(err, io.EOF) {
		t.Fatalf("a header that is cut reads %v, expected io.EOF", err)
	}
	endless := io.MultiReader(strings.NewReader(whole[:len(whole)-2]), strings.NewReader(strings.Repeat("X: y\r\n", 1000)))
	if _, _, err := Header(endless, make([]byte, HeaderBytes), nil); !errors.Is(err, ErrLong) {
		t.Fatalf("a header without end reads %v, expected %v", err, ErrLong)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80"))
	f.Add([]byte("CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nForwarded: for=\"[fd07::2]:1\""))
	f.Add([]byte("CONNECT [2a0f::2]:80 HTTP/1.1\r\nHost: [2a0f::2]:80"))
	f.Fuzz(func(t *testing.T, header []byte) {
		target, err := Parse(header)
		if err != nil {
			return
		}
		again, _, err := Header(bytes.NewReader(target.Request()), make([]byte, HeaderBytes), nil)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := Parse(again); err != nil || read != target {
			t.Fatalf("%q is read as %v, and that as %v (%v)", header, target, read, err)
		}
	})
}

func TestParseAnswerReturnsTheWrittenAnswer(t *testing.T) {
	for _, answer := range []Answer{{Code: OK}, *No(Refused, "%s refuses", "45.0.0.2:80")} {
		header, behind, err := Header(bytes.NewReader(answer.Bytes()), make([]byte, HeaderBytes), nil)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := ParseAnswer(header, behind); err != nil || read != answer {
			t.Fatalf("%v is read as %v (%v)", answer, read, err)
		}
	}
	for _, line := range []string{"", "220 mail.example ESMTP", "HTTP/1.1 2000 OK", "HTTP/1.1 abc", "HTTP/2 200"} {
		if read, err := ParseAnswer([]byte(line), nil); err == nil {
			t.Fatalf("%q is read as %v, expected no answer", line, read)
		}
	}
}
