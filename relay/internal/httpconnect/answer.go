// SPDX-License-Identifier: Apache-2.0

package httpconnect

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
)

// Answers of a relay. A refusal carries a reason in one sentence.
const (
	OK          = http.StatusOK
	Malformed   = http.StatusBadRequest
	Forbidden   = http.StatusForbidden          // destinations that no gateway may reach
	TooLong     = http.StatusRequestTimeout     // no request in time
	TooMany     = http.StatusTooManyRequests    // connections of this gateway
	Refused     = http.StatusBadGateway         // by the destination
	Unable      = http.StatusServiceUnavailable // this relay cannot: another may
	Unanswering = http.StatusGatewayTimeout     // by the destination
	Loop        = http.StatusLoopDetected       // the connection was made by this relay itself
)

// Answer is a code, with a reason unless it is OK.
type Answer struct {
	Code int
	Why  string
}

func (a Answer) Error() string { return fmt.Sprintf("%d: %s", a.Code, a.Why) }

// No returns an answer with a reason.
func No(code int, format string, values ...any) *Answer {
	return &Answer{code, fmt.Sprintf(format, values...)}
}

// Bytes encodes the answer.
func (a Answer) Bytes() []byte {
	if a.Code == OK {
		return []byte("HTTP/1.1 200 Connected\r\n\r\n")
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		a.Code, http.StatusText(a.Code), len(a.Why)+1, a.Why)
}

// ParseAnswer parses an answer's header; behind holds the reason.
func ParseAnswer(header, behind []byte) (Answer, error) {
	line, _, _ := bytes.Cut(header, []byte("\r\n"))
	words := bytes.SplitN(line, []byte(" "), 3)
	if len(words) < 2 || string(words[0]) != "HTTP/1.1" || len(words[1]) != 3 {
		return Answer{}, fmt.Errorf("the peer is no relay: expected HTTP/1.1 and a code, got %.40q", line)
	}
	code, err := strconv.Atoi(string(words[1]))
	if err != nil {
		return Answer{}, fmt.Errorf("the peer is no relay: %.40q is no code", words[1])
	}
	if code == OK {
		return Answer{Code: OK}, nil
	}
	return Answer{code, string(bytes.TrimSpace(behind))}, nil
}
