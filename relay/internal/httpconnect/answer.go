// SPDX-License-Identifier: Apache-2.0

package httpconnect

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
)

// What a relay answers. Who is refused is told why in one sentence.
const (
	OK          = http.StatusOK
	Malformed   = http.StatusBadRequest
	Forbidden   = http.StatusForbidden          // what no gateway reaches here
	TooLong     = http.StatusRequestTimeout     // nothing was asked for in time
	TooMany     = http.StatusTooManyRequests    // connections of this gateway
	Refused     = http.StatusBadGateway         // by the destination
	Unable      = http.StatusServiceUnavailable // this relay has no way there: another may have
	Unanswering = http.StatusGatewayTimeout     // the destination says nothing
	Loop        = http.StatusLoopDetected       // the connection to be carried is one that this relay made itself
)

// Answer is a code and, where that is not OK, why.
type Answer struct {
	Code int
	Why  string
}

func (a Answer) Error() string { return fmt.Sprintf("%d: %s", a.Code, a.Why) }

// No is an answer with a reason.
func No(code int, format string, values ...any) *Answer {
	return &Answer{code, fmt.Sprintf(format, values...)}
}

// Bytes are the answer as it is sent.
func (a Answer) Bytes() []byte {
	if a.Code == OK {
		return []byte("HTTP/1.1 200 Connected\r\n\r\n")
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		a.Code, http.StatusText(a.Code), len(a.Why)+1, a.Why)
}

// ParseAnswer reads an answer's header, and what came behind it for why.
func ParseAnswer(header, behind []byte) (Answer, error) {
	line, _, _ := bytes.Cut(header, []byte("\r\n"))
	words := bytes.SplitN(line, []byte(" "), 3)
	if len(words) < 2 || string(words[0]) != "HTTP/1.1" || len(words[1]) != 3 {
		return Answer{}, fmt.Errorf("what answers is no relay: expected HTTP/1.1 and a code, not %.40q", line)
	}
	code, err := strconv.Atoi(string(words[1]))
	if err != nil {
		return Answer{}, fmt.Errorf("what answers is no relay: %.40q is no code", words[1])
	}
	if code == OK {
		return Answer{Code: OK}, nil
	}
	return Answer{code, string(bytes.TrimSpace(behind))}, nil
}
