// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

const (
	name   = "controller.example"
	port   = "6653"
	hidden = "192.0.2.1" // nobody has it
)

// world is a client with two uplinks to a server that is a name server, too.
type world struct {
	t              *testing.T
	client, server *lab.Host
	directory      string
	says           chan string // the next answer of the name server, "" for none
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, directory: t.TempDir(), says: make(chan string, 1)}
	w.client, w.server = lab.Two(t)
	w.says <- lab.Service
	w.server.Do(func() error {
		socket, err := net.ListenPacket("udp4", lab.Service+":53")
		if err != nil {
			return err
		}
		t.Cleanup(func() { socket.Close() })
		go w.serveNames(socket)
		return nil
	})
	text := "nameserver " + lab.Service + "\noptions timeout:1 attempts:1\n"
	if err := os.WriteFile(w.resolvers(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) resolvers() string { return filepath.Join(w.directory, "resolv.conf") }

// answerNames sets the answer of the name server.
func (w *world) answerNames(address string) { <-w.says; w.says <- address }

func (w *world) serveNames(socket net.PacketConn) {
	query := make([]byte, 512)
	for {
		n, from, err := socket.ReadFrom(query)
		if err != nil {
			return
		}
		address := <-w.says
		w.says <- address
		if address != "" {
			socket.WriteTo(reply(query[:n], netip.MustParseAddr(address)), from)
		}
	}
}

// reply answers a question for an A record, and others with no record.
func reply(query []byte, address netip.Addr) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	if query[end-3] == 1 {
		answer[7] = 1
		answer = append(append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4), address.AsSlice()...)
	}
	return answer
}

// listen answers connections that come over a device with a greeting.
func (w *world) listen(device, greeting string) {
	w.server.Do(func() error {
		config := net.ListenConfig{Control: way{device: device}.bind}
		listener, err := config.Listen(context.Background(), "tcp4", lab.Service+":"+port)
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, greeting)
				conn.Close()
			}
		}()
		return nil
	})
}

// blacken drops what the client sends over an uplink.
func (w *world) blacken(device string) {
	w.server.Run("nft", fmt.Sprintf("table netdev black {\n chain %s {\n type filter hook ingress device %s priority 0; policy drop;\n }\n}",
		device, device))
}

// dial dials in a process of its own on the client. It returns the client's address, or the error.
func (w *world) dial(host string) (string, string) {
	w.t.Helper()
	var out []byte
	w.client.Do(func() (err error) {
		command := exec.Command("/proc/self/exe")
		command.Env = append(os.Environ(), "UPLINK_HOST="+host, "UPLINK_DIRECTORY="+w.directory)
		command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		out, err = command.Output()
		return err
	})
	var said outcome
	if err := json.Unmarshal(out, &said); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return said.Local, said.Failure
}

type outcome struct{ Local, Failure string }

func TestMain(m *testing.M) {
	if directory := os.Getenv("UPLINK_DIRECTORY"); directory != "" {
		dialOnTheClient(directory)
		return
	}
	os.Exit(m.Run())
}

// dialOnTheClient is the process of dial.
func dialOnTheClient(directory string) {
	if err := unix.Mount(filepath.Join(directory, "resolv.conf"), "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := Dialer{Proven: Proven(filepath.Join(directory, "addresses.json")), Greet: greet}.
		Dial(ctx, net.JoinHostPort(os.Getenv("UPLINK_HOST"), port))
	var said outcome
	if err != nil {
		said.Failure = err.Error()
	} else {
		said.Local = conn.LocalAddr().(*net.TCPAddr).IP.String()
	}
	json.NewEncoder(os.Stdout).Encode(said)
}

func greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	greeting, err := io.ReadAll(conn)
	if err == nil && string(greeting) != "controller" {
		err = errors.New("a stranger")
	}
	return conn, err
}

func (w *world) expect(host, local string) {
	w.t.Helper()
	if got, failure := w.dial(host); got != local || failure != "" {
		w.t.Fatalf("%q %s, expected a connection from %s", got, failure, local)
	}
}

func TestTheKernelsChoiceIsFirst(t *testing.T) {
	w := newWorld(t)
	w.listen("", "controller")
	w.expect(name, "10.1.0.1")
}

func TestAnotherUplinkIsUsedIfTheFirstIsSilent(t *testing.T) {
	w := newWorld(t)
	w.listen("", "controller")
	w.blacken("wifi")
	w.expect(lab.Service, "10.2.0.1")
	w.expect(name, "10.2.0.1") // the name server is asked there, too
}

func TestAnUplinksRouteIsInTheMainTableOrInItsOwn(t *testing.T) {
	for name, change := range map[string]string{
		"main": "ip rule delete from 10.2.0.1 table 102", "its own": "ip route delete default dev lte",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.listen("", "controller")
			w.client.Run(strings.Fields(change)...)
			w.blacken("wifi")
			w.expect(lab.Service, "10.2.0.1")
		})
	}
}

func TestAStrangerAtOneUplinkIsLeft(t *testing.T) {
	w := newWorld(t)
	w.listen("wifi", "stranger")
	w.listen("lte", "controller")
	w.expect(name, "10.2.0.1")
}

func TestAProvenAddressServesWithoutNameServers(t *testing.T) {
	w := newWorld(t)
	w.listen("", "controller")
	w.answerNames("")
	if _, failure := w.dial(name); !strings.Contains(failure, name) {
		t.Fatalf("%q, expected that the name is unknown", failure)
	}
	w.answerNames(lab.Service)
	w.expect(name, "10.1.0.1")
	for _, answer := range []string{"", hidden} {
		w.answerNames(answer)
		w.expect(name, "10.1.0.1")
	}
	if _, failure := w.dial("another.example"); failure == "" {
		t.Fatal("the address of another name was used")
	}
}

func TestADamagedFileOfAddressesCountsAsNone(t *testing.T) {
	w := newWorld(t)
	w.listen("", "controller")
	for _, text := range []string{"", "{", strings.Repeat(" ", provenBytes+1), `{"host":"` + name + `","addresses":["x"]}`} {
		if err := os.WriteFile(filepath.Join(w.directory, "addresses.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.expect(name, "10.1.0.1")
	}
}

func TestTheNewestAddressIsFirstAndFourStay(t *testing.T) {
	proven := Proven(filepath.Join(t.TempDir(), "addresses.json"))
	for _, last := range []byte{1, 2, 3, 4, 5, 4} {
		proven.add(name, netip.AddrFrom4([4]byte{192, 0, 2, last}))
	}
	if got := fmt.Sprint(proven.of(name)); got != "[192.0.2.4 192.0.2.5 192.0.2.3 192.0.2.2]" {
		t.Error(got)
	}
	proven.add("another.example", netip.MustParseAddr("192.0.2.9"))
	if got := fmt.Sprint(proven.of(name), proven.of("another.example")); got != "[] [192.0.2.9]" {
		t.Error(got)
	}
}

func TestAGreetingsErrorIsShownBeforeAConnections(t *testing.T) {
	w := newWorld(t)
	w.listen("lte", "stranger") // wifi: refused
	if _, failure := w.dial(lab.Service); failure != "over lte: a stranger" {
		t.Fatalf("%q, expected the stranger", failure)
	}
	w.blacken("wifi")
	w.blacken("lte")
	if _, failure := w.dial(lab.Service); !strings.Contains(failure, "timeout") {
		t.Fatalf("%q, expected that nobody answers", failure)
	}
}
