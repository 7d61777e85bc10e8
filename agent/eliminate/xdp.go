package eliminate

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const wanted = "XDP, Linux 5.18, CAP_BPF and CAP_NET_ADMIN are wanted"

// attach has a device's own driver run a program on what comes in (native), or, where it cannot, the kernel after it. The
// kernel takes it away when this process ends, however that ends.
func attach(program *ebpf.Program, device *net.Interface) (attached link.Link, native bool, err error) {
	options := link.XDPOptions{Program: program, Interface: device.Index, Flags: link.XDPDriverMode}
	attached, err = link.AttachXDP(options)
	if err == nil {
		return attached, true, nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		options.Flags = link.XDPGenericMode
		attached, err = link.AttachXDP(options)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s takes no XDP program: %w", device.Name, err)
	}
	return attached, false, nil
}
