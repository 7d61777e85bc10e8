// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/internal/cgroupbpf"
	"bicast/internal/clock"
)

//go:embed blocks.bpf.o
var object []byte

const (
	requirements = "sock_ops, iter/tcp and BTF, Linux 6.1, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
	atCgroup     = "bicast_blocks" // name of the program, which identifies those of killed agents
	orderMap     = "order"
	heldMap      = "held"
)

// The contents of the map, as in bpf/blocks.h.
type settings struct {
	LeaseUntilNS uint64
	Cgroup       uint64
	NetnsCookie  uint64
	BlockBytes   uint32
	_            uint32
}

// program limits the sockets of one cgroup in one network namespace. After SIGKILL it stays attached until its lease
// ends, and the next program takes over its state.
type program struct {
	within    func(func() error) error
	directory *os.File // of the cgroup
	claim     io.Closer
	objects   struct {
		AtCgroup *ebpf.Program `ebpf:"bicast_blocks"`
		Sweep    *ebpf.Program `ebpf:"sweep"`
		Order    *ebpf.Map     `ebpf:"order"`
		Held     *ebpf.Map     `ebpf:"held"`
	}
	older    *link.Iter
	settings settings
	swept    uint32 // block size in bytes that the last sweep applied
}

func govern(cgroup string, within func(func() error) error) (*program, error) {
	p := &program{within: within}
	if err := p.open(cgroup); err != nil {
		return nil, errors.Join(err, p.unload())
	}
	if err := p.load(cgroup); err != nil {
		return nil, errors.Join(err, p.unload())
	}
	return p, nil
}

func (p *program) open(cgroup string) (err error) {
	if p.directory, err = os.Open(cgroup); err != nil {
		return fmt.Errorf("cannot open the cgroup for blocks: %w", err)
	}
	var files unix.Statfs_t
	if err := unix.Fstatfs(int(p.directory.Fd()), &files); err != nil {
		return err
	}
	if files.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not a directory of cgroup v2 (`grep cgroup2 /proc/mounts` shows where they are)", cgroup)
	}
	if p.claim, err = claimCgroup(p.directory); err != nil {
		return err
	}
	var status unix.Stat_t
	if err := unix.Fstat(int(p.directory.Fd()), &status); err != nil {
		return err
	}
	p.settings.Cgroup = status.Ino
	return p.within(func() (err error) {
		p.settings.NetnsCookie, err = caps.Cookie()
		return err
	})
}

func (p *program) load(cgroup string) error {
	left, err := cgroupbpf.Find(p.directory, atCgroup)
	if err != nil {
		return err
	}
	defer left.Close()
	left.Left(p.settings.NetnsCookie, clock.Monotonic(), ownerOf)
	var before map[string]*ebpf.Map
	if youngest := left.Youngest(p.settings.NetnsCookie, ownerOf); youngest != nil {
		before = youngest.Maps
	}
	if err := p.takeOver(before); err != nil {
		return err
	}
	if err := cgroupbpf.Attach(p.directory, p.objects.AtCgroup); err != nil {
		return fmt.Errorf("cannot attach a program to the cgroup %s (needs %s): %w", cgroup, requirements, err)
	}
	_, err = left.TakeAway()
	return err
}

func specification() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the programs that limit blocks: %w", err)
	}
	return spec, nil
}

// takeOver restores the sockets that another program held. Only that program's maps have the original values.
func (p *program) takeOver(before map[string]*ebpf.Map) error {
	spec, err := specification()
	if err != nil {
		return err
	}
	maps := map[string]*ebpf.Map{}
	for _, name := range []string{orderMap, heldMap} {
		if before[name] != nil {
			maps[name] = before[name]
		}
	}
	err = spec.LoadAndAssign(&p.objects, &ebpf.CollectionOptions{MapReplacements: maps})
	if errors.Is(err, ebpf.ErrMapIncompatible) { // from another version, which ended long ago
		err = spec.LoadAndAssign(&p.objects, nil)
	}
	if err != nil {
		return fmt.Errorf("the kernel does not load the programs that limit blocks (they need %s): %w", requirements, err)
	}
	if p.older, err = link.AttachIter(link.IterOptions{Program: p.objects.Sweep}); err != nil {
		return fmt.Errorf("cannot iterate over sockets that are older than the agent (needs %s): %w", requirements, err)
	}
	return errors.Join(p.hold(0, 0), p.sweep())
}

// hold applies a block size for the lease; 0 restores the sysctl's value.
func (p *program) hold(blockBytes uint32, lease time.Duration) error {
	p.settings.BlockBytes = blockBytes
	p.settings.LeaseUntilNS = uint64(clock.Monotonic() + lease)
	if err := p.objects.Order.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("cannot write the block size to the programs: %w", err)
	}
	if p.swept == blockBytes {
		return nil
	}
	return p.sweep()
}

// sweep applies the block size to older sockets and to idle ones, which the program does not reach.
func (p *program) sweep() error {
	if err := p.within(func() error { return caps.ForEachSocket(p.older) }); err != nil {
		return fmt.Errorf("cannot iterate over sockets: %w", err)
	}
	p.swept = p.settings.BlockBytes
	return nil
}

// close restores all sockets.
func (p *program) close() error {
	failures := []error{p.hold(0, 0), cgroupbpf.Detach(p.directory, p.objects.AtCgroup)}
	return errors.Join(append(failures, p.unload())...)
}

func (p *program) unload() error {
	var failures []error
	if p.older != nil {
		failures = append(failures, p.older.Close())
	}
	for _, one := range []io.Closer{p.objects.AtCgroup, p.objects.Sweep, p.objects.Order, p.objects.Held} {
		failures = append(failures, one.Close())
	}
	if p.claim != nil {
		failures = append(failures, p.claim.Close())
	}
	if p.directory != nil {
		failures = append(failures, p.directory.Close())
	}
	return errors.Join(failures...)
}
