// Package caps holds the congestion windows of a terminal's own sockets between the bounds that a controller has ordered:
// the programs are bpf/caps.bpf.c, which says how.
//
// Nothing is pinned. Sockets keep the congestion control of an agent that was killed until they close, or until the next
// agent takes them over; past the lease it is cubic and nothing else.
package caps

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:embed caps.bpf.o
var object []byte

const (
	operations = "tcp_congestion_ops"
	nameBytes  = 16
	noPace     = ^uint32(0)

	withLink   = 1 << 13 // BPF_F_LINK: the registration ends with its link
	linkCreate = 28      // BPF_LINK_CREATE
)

// ErrNoStructOps is why a kernel cannot hold windows by a congestion control of ours.
var ErrNoStructOps = errors.New("the kernel takes no congestion control in BPF: Linux 6.4 with CONFIG_DEBUG_INFO_BTF and cubic built in, " +
	"CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are wanted")

// The maps' contents: bpf/caps.h.
type (
	pair   struct{ Source, Destination [16]byte }
	bounds struct{ Most, Least, Pace uint32 }
	name   [nameBytes]byte

	settings struct {
		LeaseUntilNS uint64
		Netns        uint64
		Round        uint32
		Name, Other  name
		_            uint32
	}
	tally struct {
		Held, Refused uint32
		Because       int32
	}
)

// program is what a namespace's sockets are held by.
type program struct {
	objects struct {
		TakeNew  *ebpf.Program `ebpf:"take_new"`
		Sweep    *ebpf.Program `ebpf:"sweep"`
		Control  *ebpf.Map     `ebpf:"control"`
		Settings *ebpf.Map     `ebpf:"settings"`
		Caps     *ebpf.Map     `ebpf:"caps"`
		Tallies  *ebpf.Map     `ebpf:"tallies"`
	}
	settings   settings
	caps       map[pair]bounds
	registered io.Closer // the congestion control
	taking     link.Link // nil: there is no cgroup to attach it to, so a sweep finds new sockets, too
	sweeping   *link.Iter
}

// load gives the kernel the programs, under this name; nothing is done by them yet.
func load(called string) (*program, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the programs that hold windows cannot be read: %w", err)
	}
	spec.Maps["control"] = control(called)
	p := &program{caps: map[pair]bounds{}}
	// What implements the congestion control is reached by its map alone, so all is loaded and then chosen from.
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStructOps, err)
	}
	defer all.Close()
	return p, all.Assign(&p.objects)
}

// control describes the congestion control to the kernel: its name, and a place for each of our functions.
func control(called string) *ebpf.MapSpec {
	var members []btf.Member
	var size uint32
	add := func(name string, of btf.Type, bytes uint32) {
		members = append(members, btf.Member{Name: name, Type: of, Offset: btf.Bits(size * 8)})
		size += bytes
	}
	for _, function := range []string{
		"init", "release", "ssthresh", "cong_avoid", "set_state", "cwnd_event", "pkts_acked", "undo_cwnd",
	} {
		add(function, &btf.Pointer{Target: (*btf.Void)(nil)}, 8)
	}
	character := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	at := size
	add("name", &btf.Array{Index: number, Type: character, Nelems: nameBytes}, nameBytes)
	contents := make([]byte, size)
	copy(contents[at:], called)
	return &ebpf.MapSpec{
		Name: called, Type: ebpf.StructOpsMap, Flags: withLink, MaxEntries: 1,
		Key: number, KeySize: 4, Value: &btf.Struct{Name: operations, Size: size, Members: members},
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: contents}},
	}
}

// begin holds the sockets of the namespace that it is called in.
func begin() (*program, error) {
	netns, err := cookie()
	if err != nil {
		return nil, err
	}
	other, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return nil, fmt.Errorf("what congestion control sockets have here cannot be read: %w", err)
	}
	called := "bicast_" + strconv.FormatUint(netns, 36)
	if len(called) >= nameBytes {
		return nil, fmt.Errorf("%s is too long a name for a congestion control, expected less than %d bytes: restart the machine, "+
			"which numbers its network namespaces from 1 on", called, nameBytes)
	}
	p, err := load(called)
	if err != nil {
		return nil, err
	}
	p.settings.Netns, p.settings.Round = netns, 1 // a socket was never counted in round 0
	copy(p.settings.Name[:nameBytes-1], called)
	copy(p.settings.Other[:nameBytes-1], strings.TrimSpace(string(other)))
	if err := p.attach(called); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *program) attach(called string) (err error) {
	p.registered, err = register(p.objects.Control)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("another agent holds the windows of this host's sockets, %s: end that", owner(called))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoStructOps, err)
	}
	if p.sweeping, err = link.AttachIter(link.IterOptions{Program: p.objects.Sweep}); err != nil {
		return fmt.Errorf("the kernel does not go through its sockets: %w", err)
	}
	if root := unified(); root != "" {
		p.taking, err = link.AttachCgroup(link.CgroupOptions{
			Path: root, Attach: ebpf.AttachCGroupSockOps, Program: p.objects.TakeNew,
		})
	}
	return err
}

// close ends it all; sockets are to have been given back before.
func (p *program) close() error {
	var failures []error
	if p.taking != nil {
		failures = append(failures, p.taking.Close())
	}
	if p.sweeping != nil {
		failures = append(failures, p.sweeping.Close())
	}
	if p.registered != nil {
		failures = append(failures, p.registered.Close())
	}
	for _, one := range []io.Closer{
		p.objects.TakeNew, p.objects.Sweep, p.objects.Control, p.objects.Settings, p.objects.Caps, p.objects.Tallies,
	} {
		failures = append(failures, one.Close())
	}
	return errors.Join(failures...)
}

// renew has caps hold for so long from now on.
func (p *program) renew(lease time.Duration) error {
	now, err := clock()
	if err != nil {
		return err
	}
	p.settings.LeaseUntilNS = uint64(now + lease)
	return p.objects.Settings.Put(uint32(0), p.settings)
}

// replace tells whether any cap is another now. What is in both orders is in force all the time.
func (p *program) replace(caps map[pair]bounds) (changed bool, err error) {
	for each, now := range caps {
		if before, there := p.caps[each]; there && before == now {
			continue
		}
		if err := p.objects.Caps.Put(each, now); err != nil {
			return true, fmt.Errorf("a cap cannot be put: %w", err)
		}
		p.caps[each], changed = now, true
	}
	for each := range p.caps {
		if _, stays := caps[each]; stays {
			continue
		}
		if err := p.objects.Caps.Delete(each); err != nil {
			return true, fmt.Errorf("a cap cannot be taken away: %w", err)
		}
		delete(p.caps, each)
		changed = true
	}
	return changed, nil
}

// sweep sees to the sockets of the namespace that it is called in.
func (p *program) sweep() (tally, error) {
	var found tally
	p.settings.Round++
	if err := errors.Join(p.objects.Settings.Put(uint32(0), p.settings), p.objects.Tallies.Put(uint32(0), found)); err != nil {
		return found, err
	}
	sockets, err := p.sweeping.Open()
	if err != nil {
		return found, err
	}
	_, err = io.Copy(io.Discard, sockets)
	return found, errors.Join(err, sockets.Close(), p.objects.Tallies.Lookup(uint32(0), &found))
}

// register makes a congestion control known to the whole machine, until it is closed.
func register(control *ebpf.Map) (io.Closer, error) {
	request := struct{ mapFD, targetFD, attachType, flags uint32 }{mapFD: uint32(control.FD()), attachType: uint32(ebpf.AttachStructOps)}
	fd, _, failed := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if failed != 0 {
		return nil, failed
	}
	unix.CloseOnExec(int(fd))
	return os.NewFile(fd, "congestion control"), nil
}

func clock() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err
}

// cookie is the number of the network namespace that it is called in.
func cookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	netns, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("the network namespace has no number (Linux 5.14 is wanted): %w", err)
	}
	return netns, nil
}

// unified is where the root of cgroups, version 2, is mounted; empty: nowhere.
func unified() string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); slices.Contains(fields[2:3], "cgroup2") {
			return fields[1]
		}
	}
	return ""
}
