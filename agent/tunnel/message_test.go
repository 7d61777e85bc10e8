// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"testing"
)

func TestDecodeReversesEncode(t *testing.T) {
	for _, length := range []int{shortest, shortest + 1, 1450, longest} {
		sent := message{kind: question, length: length, mtu: 1350, ticket: 1 << 63}
		if got, whole := decode(sent.encode()); !whole || got != sent {
			t.Fatalf("%+v, %v, expected %+v", got, whole, sent)
		}
	}
}

func FuzzDecodeAcceptsOnlyWholeMessages(f *testing.F) {
	good := message{kind: question, length: 100, ticket: 9}.encode()
	f.Add(good)
	f.Add(good[:shortest])
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, whole := decode(b)
		if whole && !bytes.Equal(m.encode()[:headBytes], b[:headBytes]) {
			t.Fatalf("%x was taken for %+v", b, m)
		}
		for _, starts := range []bool{true, false} {
			e := NewEnd(starts, searchInterval)
			e.Receive(1, b)
			if _, ever := e.Silence(1); ever && starts {
				t.Fatalf("%x answered no question", b)
			}
		}
	})
}

func FuzzDecodeDeviceDoesNotPanic(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(_ *testing.T, b []byte) {
		decodeDevice(b)
	})
}
