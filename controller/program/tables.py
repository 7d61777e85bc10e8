# SPDX-License-Identifier: Apache-2.0
"""The tables of a switch's program, and the priorities of the flows in each.

A packet enters at ENTRY. In each table the matching flow with the highest priority applies. A packet that matches no
flow is dropped.
"""

from __future__ import annotations

from controller.program.matching import Direction

ENTRY = 0  # by ingress port: replies to ARP, neighbour discovery and pings; drops forged sources
ROUTE = 1  # by destination: delivery to terminals, interception for relays, drops of what is not routed
LEAVE = 2  # by terminal and class: the group that sends to uplinks
ADVERTISE = 3  # the second half of neighbour advertisements for the gateway's own addresses
NEIGHBOUR = 4  # the second half of proxy replies for terminals
FIRST_COPIES = 10  # one table for each uplink with limits, in the order of the site's uplinks: counts its copies

# ENTRY
TAGGED_PRIORITY = 100  # drops every packet with a VLAN tag
OURSELVES_PRIORITY = 70  # drops solicitations that name the gateway as their source
TO_APP_PRIORITY = 60  # duplicate address detection of a gateway address: to the controller
LEARN_AND_ANSWER_PRIORITY = 50  # ARP request from an address whose MAC is learned: to the controller, and answered
ANSWER_PRIORITY = 40  # ARP request or solicitation for a gateway address
ALONE_PRIORITY = 38  # unicast solicitation for a gateway address, on the kernel datapath: to the controller
PROXY_TO_APP_PRIORITY = 36  # duplicate address detection of a terminal's address: to the controller
PROXY_ASKED_PRIORITY = 35  # ARP request or solicitation for a terminal behind another port
PROXY_ALONE_PRIORITY = 34  # unicast solicitation for such a terminal, on the kernel datapath: to the controller
LEARN_PRIORITY = 30  # ARP and advertisements that show a MAC: to the controller
PROXY_ANNOUNCED_PRIORITY = 25  # drops the advertisements that a proxied solicitation causes
ECHO_PRIORITY = 20  # ping of a gateway address
REACHED_PRIORITY = 18  # echo replies from beyond the next hop, to the gateway: to the controller
UPLINK_FORGED_PRIORITY = 15  # drops packets from an uplink with an inside source (RFC 2827)
FORWARD_PRIORITY = 10  # packets for the gateway's MAC: to ROUTE
TO_TERMINAL_PRIORITY = 10  # TCP from the host to a relayed terminal: to ROUTE
PASSED_ON_PRIORITY = 9  # TCP of a relayed terminal that the host passes on: to ROUTE
EXIT_FORGED_PRIORITY = 8  # drops packets from the internet exit with a source of either site
EXIT_FORWARD_PRIORITY = 6  # other packets from the internet exit: to LEAVE

# ROUTE
OWN_PRIORITY = 50  # drops packets to the gateway's own addresses
BACK_PRIORITY = 45  # to a terminal behind the ingress port
TERMINAL_PRIORITY = 40  # to a terminal
INSIDE_PRIORITY = 30  # drops packets to inside addresses of no terminal
UNROUTED_PRIORITY = 20  # drops packets to addresses that no router forwards
EXCEPTED_PRIORITY = 18  # to a network that relaying excepts: to LEAVE
INTERCEPT_PRIORITY = 14  # TCP of a relayed terminal: to the host
OUTSIDE_PRIORITY = 10  # everything else: to LEAVE

# LEAVE
EXIT_DROP_PRIORITY = 60  # drops packets from an uplink to addresses of either site, where the site has an exit
EXIT_PRIORITY = 50  # packets of the other site's terminals to the internet: to the exit
LEAVE_PRIORITIES = {  # of classes with a mode of their own, of the bicast class, and of the rest
    Direction.RECEIVED: (45, 40, 30),
    Direction.SENT: (25, 20, 10),
}

# NEIGHBOUR
OWN_PORT_PRIORITY = 20  # drops questions from the address's own port: the terminal answers there itself
PROXY_ANSWER_PRIORITY = 10
