// SPDX-License-Identifier: Apache-2.0

// Package clamp holds the congestion windows of a terminal's own sockets at most where a controller has ordered, on kernels
// that take no congestion control of ours (agent/caps/structops): the programs are bpf/cwnd_clamp.bpf.c, which says how.
//
// The program in the root cgroup is attached without a link: it outlives an agent that is killed, lifts what that held, and
// is taken over by the next agent of the namespace.
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
	called   = "bicast_clamp"
	holdings = "holdings" // the map of what is remembered of sockets
)

var (
	errKernel = errors.New("the kernel does not take the programs that clamp windows: Linux 5.16 with CONFIG_DEBUG_INFO_BTF and CONFIG_CGROUP_BPF, " +
		"CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are wanted")
	errNoRoot = errors.New("no root of cgroups, version 2, is mounted here: mount one at /sys/fs/cgroup")
)

// NewExecutor has nothing to do yet.
func NewExecutor(within func(func() error) error, log *slog.Logger) *caps.Executor {
	return caps.NewExecutor(caps.Way{
		// A cap is ordered when its connection has been heard of, and older kernels cannot watch that from then on.
		By: "clamp", AtOnce: true, Lacks: "; at most alone: what is to be held at least is not",
		Begin: func() (caps.Program, error) { return begin(log) },
	}, within, log)
}

// Probe tells why this kernel could not clamp windows; nil where it takes the programs.
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

// program is what a namespace's sockets are held by.
type program struct {
	caps.Tables
	objects struct {
		caps.Objects
		Clamp *ebpf.Program `ebpf:"bicast_clamp"`
		LetGo *ebpf.Program `ebpf:"let_go"`
	}
	claim   io.Closer
	root    *os.File // of cgroups; nil: it is not attached
	letting *link.Iter
}

func specification() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the programs that clamp windows cannot be read: %w", err)
	}
	return spec, nil
}

// load gives the kernel the programs, with what is remembered of sockets already; nothing is done by them yet.
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

// begin holds the sockets of the namespace that it is called in.
func begin(log *slog.Logger) (*program, error) {
	return alone(func(netns uint64) (*program, error) { return takeOver(netns, log) })
}

// alone begins where no other agent has.
func alone(begin func(netns uint64) (*program, error)) (*program, error) {
	netns, err := caps.Cookie()
	if err != nil {
		return nil, err
	}
	mine, err := take()
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

// takeOver begins where a killed agent ended, and takes away what that left.
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
		log.Warn("who is at the root of cgroups cannot be seen: what a killed agent may have left lifts what that held, and stays "+
			"until root takes it away (`bicast-agent release`)", "wanted", "CAP_SYS_ADMIN")
	}
	before := left.Youngest(netns, whose)
	var remembered *ebpf.Map
	if before != nil {
		remembered = before.Maps[holdings]
	}
	p, err := succeed(netns, remembered)
	if err != nil {
		return nil, err
	}
	if _, err := takeAway(left, before); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// succeed begins with what another remembered of sockets, if there was any.
func succeed(netns uint64, remembered *ebpf.Map) (*program, error) {
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	p, err := load(remembered)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	p.Settings.Netns, p.Settings.Round = netns, 1 // a socket was never counted in round 0
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
	if p.letting, err = link.AttachIter(link.IterOptions{Program: p.objects.LetGo}); err != nil {
		return err
	}
	if err := p.Tend(); err != nil {
		return err
	}
	if err := cgroupbpf.Attach(root, p.objects.Clamp); err != nil {
		return fmt.Errorf("no program can be attached to the root of cgroups: %w", err)
	}
	return nil
}

// Close lets every socket go, which is to be done in its namespace, and ends it all.
func (p *program) Close() error {
	var failures []error
	if p.letting != nil {
		failures = append(failures, caps.Through(p.letting), p.letting.Close())
	}
	if p.root != nil {
		failures = append(failures, cgroupbpf.Detach(p.root, p.objects.Clamp), p.root.Close())
	}
	if p.claim != nil {
		failures = append(failures, p.claim.Close())
	}
	return errors.Join(append(failures, p.CloseTables(), p.objects.Clamp.Close(), p.objects.LetGo.Close())...)
}
