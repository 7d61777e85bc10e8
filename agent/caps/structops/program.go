// SPDX-License-Identifier: Apache-2.0

// Package structops holds the congestion windows of a terminal's own sockets between the bounds that a controller has ordered:
// the programs are bpf/cwnd_cubic.bpf.c, which says how.
//
// Nothing is pinned. Sockets keep the congestion control of an agent that was killed until they close, or until the next
// agent takes them over; past the lease it is cubic and nothing else.
package structops

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/internal/cgroupbpf"
)

//go:embed cwnd_cubic.bpf.o
var object []byte

const (
	operations = "tcp_congestion_ops"
	nameBytes  = caps.NameBytes

	withLink   = 1 << 13 // BPF_F_LINK: the registration ends with its link
	linkCreate = 28      // BPF_LINK_CREATE
)

// ErrNoStructOps is why a kernel cannot hold windows by a congestion control of ours.
var ErrNoStructOps = errors.New("the kernel takes no congestion control in BPF: Linux 6.4 with CONFIG_DEBUG_INFO_BTF and cubic built in, " +
	"CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are wanted")

// program is what a namespace's sockets are held by.
type program struct {
	caps.Tables
	objects struct {
		caps.Objects
		TakeNew *ebpf.Program `ebpf:"take_new"`
		Control *ebpf.Map     `ebpf:"control"`
	}
	registered io.Closer // the congestion control
	taking     link.Link // nil: there is no cgroup to attach it to, so a sweep finds new sockets, too
}

// NewExecutor has nothing to do yet.
func NewExecutor(within func(func() error) error, log *slog.Logger) *caps.Executor {
	return caps.NewExecutor(caps.Way{By: "congestion-control", Begin: begin}, within, log)
}

// Probe tells why this kernel could not hold windows; nil where it takes the programs.
func Probe() error {
	p, err := load("bicast_probe")
	if err != nil {
		return err
	}
	return p.Close()
}

// load gives the kernel the programs, under this name; nothing is done by them yet.
func load(called string) (*program, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the programs that hold windows cannot be read: %w", err)
	}
	spec.Maps["control"] = control(called)
	p := &program{}
	p.Tables = caps.NewTables(&p.objects.Objects)
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
func begin() (caps.Program, error) {
	netns, err := caps.Cookie()
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
	p.Settings.Netns, p.Settings.Round = netns, 1 // a socket was never counted in round 0
	copy(p.Settings.Name[:nameBytes-1], called)
	copy(p.Settings.Other[:nameBytes-1], strings.TrimSpace(string(other)))
	if err := p.attach(called); err != nil {
		return nil, errors.Join(err, p.Close())
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
	if err := p.Open(); err != nil {
		return err
	}
	if root := cgroupbpf.Mounted(); root != "" {
		p.taking, err = link.AttachCgroup(link.CgroupOptions{
			Path: root, Attach: ebpf.AttachCGroupSockOps, Program: p.objects.TakeNew,
		})
	}
	return err
}

// Close ends it all; sockets are to have been given back before.
func (p *program) Close() error {
	var failures []error
	if p.taking != nil {
		failures = append(failures, p.taking.Close())
	}
	if p.registered != nil {
		failures = append(failures, p.registered.Close())
	}
	return errors.Join(append(failures, p.CloseTables(), p.objects.TakeNew.Close(), p.objects.Control.Close())...)
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
