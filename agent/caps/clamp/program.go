// SPDX-License-Identifier: Apache-2.0

// Package clamp limits the congestion windows of a terminal's own sockets, on kernels that do not load our congestion control
// (agent/caps/structops). The programs are in bpf/cwnd_clamp.bpf.c, which describes the mechanism.
//
// The program is attached to the root cgroup without a link. It outlives a killed agent, lifts the caps when the lease ends, and
// the next agent of the namespace takes over its state.
package clamp

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"bicast/agent/caps"
	"bicast/internal/cgroupbpf"
)

//go:embed cwnd_clamp.bpf.o
var object []byte

const (
	programName = "bicast_clamp"
	holdings    = "holdings" // the map with the state of sockets
)

var (
	errKernel = errors.New("the kernel does not load the programs that clamp windows: they need Linux 5.16 with CONFIG_DEBUG_INFO_BTF and CONFIG_CGROUP_BPF, " +
		"CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")
	errNoRoot = errors.New("cgroup v2 is not mounted: mount it at /sys/fs/cgroup")
)

// NewExecutor returns an executor without caps.
func NewExecutor(within func(func() error) error, log *slog.Logger) *caps.Executor {
	return caps.NewExecutor(caps.Method{
		// Begin before the first cap: older kernels cannot watch connections that are older than the program.
		By: "clamp", AtOnce: true, Lacks: "; lower limits are not enforced",
		Begin: func() (caps.Program, error) { return begin(log) },
	}, within, log)
}

// Probe returns the reason why this kernel cannot clamp windows, or nil.
func Probe() error {
	if cgroupbpf.Mounted() == "" {
		return errNoRoot
	}
	p, err := load(nil)
	if err != nil {
		return err
	}
	return p.Close()
}

// program clamps the sockets of one network namespace.
type program struct {
	caps.Tables
	objects struct {
		caps.Objects
		Clamp *ebpf.Program `ebpf:"bicast_clamp"`
		LetGo *ebpf.Program `ebpf:"let_go"`
	}
	claim     io.Closer
	root      *os.File // root cgroup; nil while the program is not attached
	releasing *link.Iter
}

func specification() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the programs that clamp windows: %w", err)
	}
	return spec, nil
}

// load loads the programs with the remembered state of sockets, without attaching them.
func load(remembered *ebpf.Map) (*program, error) {
	spec, err := specification()
	if err != nil {
		return nil, err
	}
	var options ebpf.CollectionOptions
	if remembered != nil && spec.Maps[holdings].Compatible(remembered) == nil {
		options.MapReplacements = map[string]*ebpf.Map{holdings: remembered}
	}
	p := &program{}
	p.Tables = caps.NewTables(&p.objects.Objects)
	if err := spec.LoadAndAssign(&p.objects, &options); err != nil {
		return nil, fmt.Errorf("%w: %w", errKernel, err)
	}
	return p, nil
}

// begin clamps the sockets of the calling thread's network namespace.
func begin(log *slog.Logger) (*program, error) {
	return withClaim(func(netns uint64) (*program, error) { return takeOver(netns, log) })
}

// withClaim runs begin under the namespace's claim, or fails if another agent has it.
func withClaim(begin func(netns uint64) (*program, error)) (*program, error) {
	netns, err := caps.Cookie()
	if err != nil {
		return nil, err
	}
	mine, err := takeClaim()
	if err != nil {
		return nil, err
	}
	p, err := begin(netns)
	if err != nil {
		return nil, errors.Join(err, mine.Close())
	}
	p.claim = mine
	return p, nil
}

// takeOver continues from a killed agent's state and removes what it left.
func takeOver(netns uint64, log *slog.Logger) (*program, error) {
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	left, err := leftovers(root, netns)
	if err != nil {
		return nil, err
	}
	defer left.Close()
	if left.Blind {
		log.Warn("cannot list the programs at the root cgroup: a killed agent's program may stay there, without caps after its lease, "+
			"until root removes it with `bicast-agent release`", "wanted", "CAP_SYS_ADMIN")
	}
	before := left.Youngest(netns, ownerOf)
	var remembered *ebpf.Map
	if before != nil {
		remembered = before.Maps[holdings]
	}
	p, err := start(netns, remembered)
	if err != nil {
		return nil, err
	}
	if _, err := takeAway(left, before); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// start begins with the state of another program, if there is one.
func start(netns uint64, remembered *ebpf.Map) (*program, error) {
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	p, err := load(remembered)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	p.Settings.Netns, p.Settings.Round = netns, 1 // no socket was counted in round 0
	if err := p.attach(root); err != nil {
		return nil, errors.Join(err, p.Close(), root.Close())
	}
	p.root = root
	return p, nil
}

func openRoot() (*os.File, error) {
	path := cgroupbpf.Mounted()
	if path == "" {
		return nil, errNoRoot
	}
	return os.Open(path)
}

func (p *program) attach(root *os.File) (err error) {
	if err := p.Open(); err != nil {
		return err
	}
	if p.releasing, err = link.AttachIter(link.IterOptions{Program: p.objects.LetGo}); err != nil {
		return err
	}
	if err := p.Heartbeat(); err != nil {
		return err
	}
	if err := cgroupbpf.Attach(root, p.objects.Clamp); err != nil {
		return fmt.Errorf("cannot attach a program to the root cgroup: %w", err)
	}
	return nil
}

// Close releases every socket and unloads the program. Call it in the program's namespace.
func (p *program) Close() error {
	var failures []error
	if p.releasing != nil {
		failures = append(failures, caps.ForEachSocket(p.releasing), p.releasing.Close())
	}
	if p.root != nil {
		failures = append(failures, cgroupbpf.Detach(p.root, p.objects.Clamp), p.root.Close())
	}
	if p.claim != nil {
		failures = append(failures, p.claim.Close())
	}
	return errors.Join(append(failures, p.CloseTables(), p.objects.Clamp.Close(), p.objects.LetGo.Close())...)
}
