// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"bicast/internal/lab"
)

const (
	passed  = 2 // XDP_PASS
	dropped = 1 // XDP_DROP

	wifi, lte = 0, 1
)

// bench has three devices of a host, one for each path. The tests run the program on packets without sending them.
type bench struct {
	t     testing.TB
	host  *lab.Host
	e     *Eliminator
	at    [3]uint32   // index of each path's device
	tasks chan func() // executed by a thread in the host's namespace
}

func newBench(t testing.TB, identities, paths int) *bench {
	t.Helper()
	e, err := Load(identities)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.settings.BucketsMask = e.buckets - 1 // use all the room
	b := &bench{t: t, e: e, tasks: make(chan func())}
	t.Cleanup(func() { close(b.tasks) })
	b.host, _ = lab.Two(t)
	b.host.Run("ip", "link", "add", "sat", "type", "veth", "peer", "name", "tas")
	b.host.Do(func() error {
		for path, name := range []string{"wifi", "lte", "sat"}[:paths] {
			device, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			b.at[path] = uint32(device.Index)
			if err := e.at(b.at[path], uint32(path), own); err != nil {
				return err
			}
		}
		return nil
	})
	go b.host.Try(func() error {
		for task := range b.tasks {
			task()
		}
		return nil
	})
	b.renew(time.Minute, time.Minute)
	return b
}

func (b *bench) renew(window, lease time.Duration) {
	b.t.Helper()
	if err := b.e.Renew(window, lease); err != nil {
		b.t.Fatal(err)
	}
}

// struct xdp_md
type arrival struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

func (b *bench) comes(path int, frame []byte) (verdict uint32) {
	b.t.Helper()
	var err error
	done := make(chan struct{})
	b.tasks <- func() {
		verdict, err = b.show(path, frame)
		close(done)
	}
	if <-done; err != nil {
		b.t.Fatal(err)
	}
	return verdict
}

// show runs the program in the host's namespace, where the caller already is.
func (b *bench) show(path int, frame []byte) (verdict uint32, err error) {
	return b.e.objects.Program.Run(&ebpf.RunOptions{
		Data: frame, Context: arrival{DataEnd: uint32(len(frame)), IngressIfindex: b.at[path]},
	})
}

// forgets changes the key, so that no earlier packet is recognized.
func (b *bench) forgets() {
	b.t.Helper()
	b.e.settings.Secret[0]++
	b.renew(time.Minute, time.Minute)
}

// expect runs the program on packets in turn and checks each verdict.
func (b *bench) expect(verdict uint32, path int, frame []byte, why string) {
	b.t.Helper()
	if got := b.comes(path, frame); got != verdict {
		b.t.Fatalf("%s: verdict %d, expected %d", why, got, verdict)
	}
}

// expectAllPass runs the program on a packet that it must not eliminate, twice on each of two paths: the program cannot
// identify the packet, or the site does not forward it.
func (b *bench) expectAllPass(frame []byte, why string) {
	b.t.Helper()
	for _, path := range []int{wifi, wifi, lte, lte} {
		b.expect(passed, path, frame, why)
	}
}

func (b *bench) counters() []Counters {
	b.t.Helper()
	all, err := b.e.Counters()
	if err != nil {
		b.t.Fatal(err)
	}
	return all[:]
}
