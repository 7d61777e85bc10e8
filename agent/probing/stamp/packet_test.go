// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var testKey = unhex("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")

func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func zeros(bytes int) string { return strings.Repeat("00", bytes) }

// Packets that stamp-suite 1.0.0, another implementation of RFC 8762 and 8972, sent at 2026-11-22 08:44 from one port to
// another with testKey, session 0x1234 and TTL 255, captured with tcpdump.
var recorded = []struct {
	name             string
	key              []byte
	question, answer string
	ptp              bool
}{
	{"NTP", nil,
		"00000001 eead29d95b14b8bc 85c9 1234" + zeros(28),
		"00000001 eead29d95b346920 034d 1234 eead29d95b318cb7 00000001 eead29d95b14b8bc 85c9 0000 ff 000000", false},
	{"PTP", nil,
		"00000001 6b02ab59346d654c c5c9 1234" + zeros(28),
		"00000001 6b02ab5934790147 434d 1234 6b02ab593473da9b 00000001 6b02ab59346d654c c5c9 0000 ff 000000", true},
	{"authenticated", testKey,
		"00000001" + zeros(12) + "eead29da696e719e 85c9 1234" + zeros(68) + "198702438f96e913c400e1e8923f329b",
		"00000001" + zeros(12) + "eead29da6984f56a 034d 1234 00000000 eead29da697fb919" + zeros(8) +
			"00000001" + zeros(12) + "eead29da696e719e 85c9" + zeros(6) + "ff" + zeros(15) + "1c8b92da6513e69e97c30d8832e1ea2f", false},
}

func TestPacketsMatchAnotherImplementation(t *testing.T) {
	sent := time.Date(2026, 11, 22, 8, 44, 9, 0, time.UTC)
	for _, each := range recorded {
		t.Run(each.name, func(t *testing.T) {
			question, answer := unhex(each.question), unhex(each.answer)
			p, ok := OpenPacket(each.key, question)
			if !ok || p.Number != 1 || p.Session != 0x1234 || p.Estimate.PTP() != each.ptp || p.Estimate&synchronized == 0 {
				t.Fatalf("%+v (%v)", p, ok)
			}
			if at := time.Unix(0, p.Estimate.Nanoseconds(p.Time)); at.Sub(sent).Abs() > 2*time.Second {
				t.Fatalf("sent at %v, expected %v", at, sent)
			}
			if wrongBy := errorOf(p.Estimate); wrongBy != 201*32/float64(1<<32) {
				t.Fatalf("wrong by %v s", wrongBy)
			}
			if b := p.Seal(each.key); !bytes.Equal(b, question) {
				t.Fatalf("we would send\n%x, they sent\n%x", b, question)
			}
			a, ok := OpenAnswer(each.key, answer)
			if !ok || a.To.Number != 1 || a.To.Time != p.Time || a.To.Estimate != p.Estimate || a.TTL != 255 {
				t.Fatalf("%+v (%v)", a, ok)
			}
			stayed := a.Estimate.Nanoseconds(a.Time) - a.Estimate.Nanoseconds(a.Received)
			if stayed < 0 || stayed > int64(time.Second) {
				t.Fatalf("it was there for %d ns", stayed)
			}
			if b := a.Seal(each.key); !bytes.Equal(b, answer) {
				t.Fatalf("we would answer\n%x, they answered\n%x", b, answer)
			}
		})
	}
}

func TestOpenRejectsShortAndForgedPackets(t *testing.T) {
	question, answer := Packet{Number: 7, Time: 1}.Seal(testKey), Answer{Packet: Packet{Number: 7}, Received: 1}.Seal(testKey)
	for length := range question {
		if _, ok := OpenPacket(testKey, question[:length]); ok {
			t.Fatalf("a packet of %d bytes was read", length)
		}
		if _, ok := OpenAnswer(testKey, answer[:length]); ok {
			t.Fatalf("an answer of %d bytes was read", length)
		}
		for _, b := range [][]byte{question, answer} {
			forged := bytes.Clone(b)
			forged[length] ^= 1
			_, asked := OpenPacket(testKey, forged)
			_, answered := OpenAnswer(testKey, forged)
			if asked || answered {
				t.Fatalf("a changed byte %d was not seen", length)
			}
		}
	}
	plainly := Packet{}.Seal(nil)
	for length := range plainly {
		if _, ok := OpenPacket(nil, plainly[:length]); ok {
			t.Fatalf("a packet of %d bytes was read", length)
		}
	}
	if _, ok := OpenPacket(bytes.Repeat([]byte{1}, 32), question); ok {
		t.Fatal("a packet of another key was read")
	}
}

func TestOpenPacketRejectsAnswers(t *testing.T) {
	if _, ok := OpenPacket(testKey, Answer{Received: 1}.Seal(testKey)); ok {
		t.Fatal("the reflector answers its own reflected answers")
	}
}

func TestOpenPacketIgnoresPadding(t *testing.T) {
	for _, key := range [][]byte{nil, testKey} {
		p := Packet{Number: 3, Session: 4, Time: 5, Estimate: 6}
		if got, ok := OpenPacket(key, append(p.Seal(key), 1, 2, 3)); !ok || got != p {
			t.Fatalf("%+v (%v)", got, ok)
		}
	}
}

func TestWireRoundTripsNanoseconds(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(0, 1), time.Unix(1, 999_999_999), time.Date(2026, 11, 22, 8, 44, 9, 123_456_789, time.UTC),
		time.Date(2036, 2, 7, 6, 28, 15, 999_999_999, time.UTC), time.Date(2036, 2, 7, 6, 28, 16, 0, time.UTC), // the next NTP era
		time.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC),
	} {
		for _, format := range []Estimate{0, inPTP} {
			if got := format.Nanoseconds(format.Wire(at.UnixNano())); got != at.UnixNano() {
				t.Errorf("%v came back as %v (PTP: %v)", at, time.Unix(0, got).UTC(), format.PTP())
			}
		}
	}
}

// errorOf decodes an Error Estimate (RFC 4656): an 8-bit multiplier times two to the power of a 6-bit scale minus 32.
func errorOf(e Estimate) float64 { return math.Ldexp(float64(e%256), int(e/256%64)-32) }

func TestNewEstimateRoundsUpAndIsNeverZero(t *testing.T) {
	for _, wrongBy := range []time.Duration{0, 1, 59, time.Microsecond, 333 * time.Millisecond, 16 * time.Second, time.Hour, 1<<63 - 1} {
		said := errorOf(NewEstimate(true, wrongBy))
		if said == 0 || said < wrongBy.Seconds() || said > max(2e-9, wrongBy.Seconds()*1.01) {
			t.Errorf("%v is encoded as %v s", wrongBy, said)
		}
	}
}

// Wireshark's dissector is for TWAMP-Test, which differs from STAMP in the padding only (RFC 8762, section 4.6).
func TestWiresharkDissectsOurAnswers(t *testing.T) {
	at := time.Date(2026, 11, 22, 8, 44, 9, 250_000_000, time.UTC)
	ours := NewEstimate(true, 3*time.Millisecond)
	a := Answer{
		Packet:   Packet{Number: 70001, Time: ours.Wire(at.UnixNano()), Estimate: ours},
		Received: ours.Wire(at.Add(-time.Millisecond).UnixNano()), TTL: 61,
		To: Packet{Number: 70002, Time: ours.Wire(at.Add(-time.Second).UnixNano()), Estimate: NewEstimate(false, time.Second)},
	}
	file := filepath.Join(t.TempDir(), "answer.pcap")
	if err := os.WriteFile(file, capture(a.Seal(nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := []string{"-n", "-r", file, "-d", "udp.port==862,twamp.test", "-T", "fields"}
	for _, field := range []string{"seq_number", "sender_seq_number", "sender_ttl", "error_estimate", "sender_error_estimate",
		"timestamp", "receive_timestamp", "sender_timestamp"} {
		argv = append(argv, "-e", "twamp.test."+field)
	}
	tshark := exec.Command("tshark", argv...)
	tshark.Env = append(os.Environ(), "TZ=UTC")
	said, err := tshark.Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	told := strings.Split(strings.TrimRight(string(said), "\n"), "\t")
	expected := []string{"70001", "70002", "61", strconv.Itoa(int(a.Estimate)), strconv.Itoa(int(a.To.Estimate)), "08:44:09.250", "08:44:09.249", "08:44:08.250"}
	if len(told) != len(expected) {
		t.Fatalf("tshark told %q", said)
	}
	for i, each := range told {
		if !strings.Contains(each, expected[i]) {
			t.Errorf("tshark reads %s, we wrote %s (%s)", each, expected[i], argv[len(argv)-2*(len(told)-i)+1])
		}
	}
}

// capture returns a pcap file with one UDP packet to port 862, without a link header (LINKTYPE_RAW).
func capture(payload []byte) []byte {
	udp := binary.BigEndian.AppendUint16(unhex("c000 035e"), uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	ip := binary.BigEndian.AppendUint16(unhex("4500"), uint16(20+len(udp)))
	ip = append(append(ip, unhex("0000 4000 4011 0000 7f000001 7f000001")...), udp...)
	b := unhex("a1b2c3d4 0002 0004 00000000 00000000 0000ffff 00000065 00000000 00000000")
	b = binary.BigEndian.AppendUint32(b, uint32(len(ip)))
	return append(binary.BigEndian.AppendUint32(b, uint32(len(ip))), ip...)
}
