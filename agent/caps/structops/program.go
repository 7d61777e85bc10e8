// SPDX-License-Identifier: Apache-2.0

// Package structops keeps the congestion windows of a terminal's own sockets within the controller's bounds. The programs are in
// bpf/cwnd_cubic.bpf.c, which describes the mechanism.
//
// Nothing is pinned. Sockets of a killed agent keep its congestion control until they close or the next agent takes them over.
// After the lease it behaves as plain cubic.
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

// ErrNoStructOps is the reason why a kernel cannot load our congestion control.
var ErrNoStructOps = errors.New("the kernel loads no congestion control in BPF: it needs Linux 6.4 with CONFIG_DEBUG_INFO_BTF and cubic built in, " +
	"CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")

// program holds the sockets of one network namespace.
type program struct {
	caps.Tables
	objects struct {
		caps.Objects
		TakeNew *ebpf.Program `ebpf:"take_new"`
		Control *ebpf.Map     `ebpf:"control"`
	}
	registered io.Closer // the congestion control
	taking     link.Link // nil without a mounted cgroup: then sweeps find new sockets
}

// NewExecutor returns an executor without caps.
func NewExecutor(within func(func() error) error, log *slog.Logger) *caps.Executor {
	return caps.NewExecutor(caps.Method{By: "congestion-control", Begin: begin}, within, log)
}

// Probe returns the reason why this kernel cannot hold windows, or nil.
func Probe() error {
	p, err := load("bicast_probe")
	if err != nil {
		return err
	}
	return p.Close()
}

// load loads the programs under this name without attaching them.
func load(called string) (*program, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the programs that hold windows: %w", err)
	}
	spec.Maps["control"] = control(called)
	p := &program{}
	p.Tables = caps.NewTables(&p.objects.Objects)
	// Only the map refers to the functions of the congestion control, so load everything and pick objects then.
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStructOps, err)
	}
	defer all.Close()
	return p, all.Assign(&p.objects)
}

// control describes the congestion control to the kernel: its name, and a slot for each function.
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

// begin holds the sockets of the calling thread's network namespace.
func begin() (caps.Program, error) {
	netns, err := caps.Cookie()
	if err != nil {
		return nil, err
	}
	other, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return nil, fmt.Errorf("cannot read the default congestion control: %w", err)
	}
	called := "bicast_" + strconv.FormatUint(netns, 36)
	if len(called) >= nameBytes {
		return nil, fmt.Errorf("the congestion control name %s is too long, expected less than %d bytes: restart the machine, "+
			"which then numbers its network namespaces from 1", called, nameBytes)
	}
	p, err := load(called)
	if err != nil {
		return nil, err
	}
	p.Settings.Netns, p.Settings.Round = netns, 1 // no socket was counted in round 0
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
		return fmt.Errorf("another agent holds the windows of this host's sockets, %s: stop that agent", owner(called))
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

// Close unloads the program. Release the sockets before.
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

// register registers a congestion control for the whole machine, until it is closed.
func register(control *ebpf.Map) (io.Closer, error) {
	request := struct{ mapFD, targetFD, attachType, flags uint32 }{mapFD: uint32(control.FD()), attachType: uint32(ebpf.AttachStructOps)}
	fd, _, failed := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if failed != 0 {
		return nil, failed
	}
	unix.CloseOnExec(int(fd))
	return os.NewFile(fd, "congestion control"), nil
}
