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
	wanted   = "sock_ops, iter/tcp and BTF, Linux 6.1, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are wanted"
	atCgroup = "bicast_blocks" // the program's name, by which a killed agent's is known
	orderMap = "order"
	heldMap  = "held"
)

// The map's contents: bpf/blocks.h.
type settings struct {
	LeaseUntilNS uint64
	Cgroup       uint64
	NetnsCookie  uint64
	BlockBytes   uint32
	_            uint32
}

// program keeps the sockets of one cgroup's programs in one network namespace. It stays at the cgroup when this process
// is killed, until its lease is over; the next one takes over what is held.
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
	swept    uint32 // bytes of a block that older sockets have, too
}

func govern(cgroup string, within func(func() error) error) (*program, error) {
	p := &program{within: within}
	if err := p.open(cgroup); err != nil {
		return nil, errors.Join(err, p.let())
	}
	if err := p.load(cgroup); err != nil {
		return nil, errors.Join(err, p.let())
	}
	return p, nil
}

func (p *program) open(cgroup string) (err error) {
	if p.directory, err = os.Open(cgroup); err != nil {
		return fmt.Errorf("the cgroup whose programs are to take blocks cannot be opened: %w", err)
	}
	var files unix.Statfs_t
	if err := unix.Fstatfs(int(p.directory.Fd()), &files); err != nil {
		return err
	}
	if files.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is no directory of cgroup v2 (`grep cgroup2 /proc/mounts` tells where those are)", cgroup)
	}
	if p.claim, err = alone(p.directory); err != nil {
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
	left.Left(p.settings.NetnsCookie, clock.Monotonic(), whose)
	var before map[string]*ebpf.Map
	if youngest := left.Youngest(p.settings.NetnsCookie, whose); youngest != nil {
		before = youngest.Maps
	}
	if err := p.takeOver(before); err != nil {
		return err
	}
	if err := cgroupbpf.Attach(p.directory, p.objects.AtCgroup); err != nil {
		return fmt.Errorf("the cgroup %s takes no program (%s): %w", cgroup, wanted, err)
	}
	_, err = left.TakeAway()
	return err
}

func specification() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the programs that keep blocks small cannot be read: %w", err)
	}
	return spec, nil
}

// takeOver gives sockets back what they had before another program held them: what that has set is known by its maps alone.
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
	if errors.Is(err, ebpf.ErrMapIncompatible) { // another version's, which is dead for long
		err = spec.LoadAndAssign(&p.objects, nil)
	}
	if err != nil {
		return fmt.Errorf("the kernel does not take the programs that keep blocks small (%s): %w", wanted, err)
	}
	if p.older, err = link.AttachIter(link.IterOptions{Program: p.objects.Sweep}); err != nil {
		return fmt.Errorf("sockets that are older than the agent cannot be looked through (%s): %w", wanted, err)
	}
	return errors.Join(p.hold(0, 0), p.sweep())
}

// hold has sockets take blocks of so many bytes for so long; 0: as the sysctl has it.
func (p *program) hold(blockBytes uint32, lease time.Duration) error {
	p.settings.BlockBytes = blockBytes
	p.settings.LeaseUntilNS = uint64(clock.Monotonic() + lease)
	if err := p.objects.Order.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("the programs cannot be told how large a block is: %w", err)
	}
	if p.swept == blockBytes {
		return nil
	}
	return p.sweep()
}

// sweep sees to sockets that nobody else does: those older than this process, and those on which nothing moves.
func (p *program) sweep() error {
	if err := p.within(func() error { return caps.Through(p.older) }); err != nil {
		return fmt.Errorf("sockets cannot be looked through: %w", err)
	}
	p.swept = p.settings.BlockBytes
	return nil
}

// close gives all sockets back what they had.
func (p *program) close() error {
	failures := []error{p.hold(0, 0), cgroupbpf.Detach(p.directory, p.objects.AtCgroup)}
	return errors.Join(append(failures, p.let())...)
}

func (p *program) let() error {
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
