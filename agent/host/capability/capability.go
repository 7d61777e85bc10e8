// SPDX-License-Identifier: Apache-2.0

// Package capability probes what an agent can do on this host. It assumes nothing about the kernel, and gives a reason
// for each missing capability.
package capability

import (
	"context"
	"errors"
	"fmt"

	"bicast/agent/caps/clamp"
	"bicast/agent/caps/receivewindow"
	"bicast/agent/caps/structops"
	"bicast/agent/elimination"
	"bicast/agent/intercept"
	"bicast/agent/mptcpctl/pathmanager"
	"bicast/agent/probing"
	"bicast/agent/probing/traceroute"
	"bicast/agent/relayhost"
	"bicast/agent/tunnel"
	"bicast/api/agentv1"
	"bicast/mptcp"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

// Names of capabilities in api/agent.proto.
const (
	Report           = "report"
	MPTCP            = "mptcp"
	Eliminate        = "eliminate"
	Tunnel           = "tunnel"
	Caps             = "caps"
	Clamp            = "clamp"
	Window           = "window"
	Probe            = "probe"
	Relay            = "relay"
	Intercept        = "take"
	MeasureDistances = "walk"
	KeepAlive        = "keepalive"
)

// Kernel is a handle of the kernel's MPTCP, or the reason why there is none.
type Kernel struct {
	Handle  *mptcp.Handle
	Missing error
}

// Probe tries every capability that the role may need.
func (k Kernel) Probe(role agentv1.Role) []*agentv1.Capability {
	all := []*agentv1.Capability{
		capabilityOf(Report, k.canReport()), capabilityOf(MPTCP, k.canMove(role)), capabilityOf(Eliminate, canEliminate(role)), capabilityOf(Tunnel, canTunnel(role)),
		capabilityOf(Caps, canCap(role, structops.Probe)), capabilityOf(Clamp, canCap(role, clamp.Probe)), capabilityOf(Window, canLowerWindows(role)),
		capabilityOf(Probe, probing.Probe()), capabilityOf(Relay, canRelay(role)), capabilityOf(Intercept, k.canIntercept(role)), capabilityOf(MeasureDistances, traceroute.Probe()),
	}
	if role != agentv1.Role_ROLE_TERMINAL { // a terminal's programs set keepalive themselves
		all = append(all, capabilityOf(KeepAlive, proxy.KeepAlive()))
	}
	return all
}

// PathManager returns the path manager of new connections.
func (k Kernel) PathManager() agentv1.PathManager {
	if k.Handle == nil {
		return agentv1.PathManager_PATH_MANAGER_UNSPECIFIED
	}
	switch manager, err := pathmanager.Current(k.Handle); {
	case err != nil:
		return agentv1.PathManager_PATH_MANAGER_UNSPECIFIED
	case manager == mptcp.UserspaceManager:
		return agentv1.PathManager_PATH_MANAGER_USERSPACE
	default:
		return agentv1.PathManager_PATH_MANAGER_KERNEL
	}
}

func (k Kernel) canReport() error {
	if k.Handle == nil {
		return fmt.Errorf("interfaces only, no connections: %w", k.Missing)
	}
	if _, err := k.Handle.Connections(); err != nil {
		return fmt.Errorf("interfaces only, no connections: %w", err)
	}
	return nil
}

func (k Kernel) canMove(role agentv1.Role) error {
	if role == agentv1.Role_ROLE_GATEWAY {
		return fmt.Errorf("a gateway forwards the connections of terminals and cannot move them")
	}
	if k.Handle == nil {
		return k.Missing
	}
	// Events and commands both need CAP_NET_ADMIN, so a subscription tests the right to give commands.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := k.Handle.Events(ctx); err != nil {
		return err
	}
	if role == agentv1.Role_ROLE_RELAY && k.PathManager() != agentv1.PathManager_PATH_MANAGER_USERSPACE {
		return fmt.Errorf("the userspace path manager is not in use yet: under the kernel's, an order would affect every client of this host")
	}
	return nil
}

func canEliminate(role agentv1.Role) error {
	if role != agentv1.Role_ROLE_GATEWAY {
		return elimination.ErrNoGateway
	}
	return elimination.Probe()
}

func canTunnel(role agentv1.Role) error {
	if role != agentv1.Role_ROLE_GATEWAY {
		return tunnel.ErrNoGateway
	}
	return tunnel.Probe()
}

func canCap(role agentv1.Role, probe func() error) error {
	if role != agentv1.Role_ROLE_TERMINAL {
		return errors.New("congestion windows are capped on terminals only: run an agent of role terminal there")
	}
	return probe()
}

func canLowerWindows(role agentv1.Role) error {
	if role != agentv1.Role_ROLE_GATEWAY {
		return errors.New("receive windows are lowered on gateways only: run an agent of role gateway where terminals' connections pass")
	}
	return receivewindow.Probe()
}

func canRelay(role agentv1.Role) error {
	if role != agentv1.Role_ROLE_RELAY {
		return relayhost.ErrNoRelay
	}
	return nil
}

func (k Kernel) canIntercept(role agentv1.Role) error {
	switch {
	case role != agentv1.Role_ROLE_GATEWAY:
		return intercept.ErrNoGateway
	case k.Handle == nil:
		return k.Missing
	default:
		return k.Handle.Do(divert.Probe)
	}
}

func capabilityOf(name string, why error) *agentv1.Capability {
	if why != nil {
		return &agentv1.Capability{Name: name, Reason: why.Error()}
	}
	return &agentv1.Capability{Name: name, Available: true}
}
