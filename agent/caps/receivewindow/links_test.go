// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// attachedLinks counts the programs with links at a port.
func (h *house) attachedLinks(port string) (programs int) {
	h.t.Helper()
	h.gateway.Do(func() error {
		device, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		for _, attach := range []ebpf.AttachType{ebpf.AttachTCXEgress, ebpf.AttachTCXIngress} {
			setState, err := link.QueryPrograms(link.QueryOptions{Target: device.Index, Attach: attach})
			if err != nil {
				return err
			}
			programs += len(setState.Programs)
		}
		return nil
	})
	return programs
}
