# SPDX-License-Identifier: Apache-2.0
"""The tables of a switch's program, and the priorities of their flows.

A packet that matches no flow is dropped.
"""

from __future__ import annotations

from controller.program.matching import Direction

ENTRY = 0  # by ingress port: replies to ARP, neighbour discovery and pings; drops forged sources
ROUTE = 1  # by destination: delivery, interception, drops of what is not routed
LEAVE = 2  # by terminal and class: the group that sends to uplinks
ADVERTISE = 3  # second half of advertisements for the gateway's own addresses
NEIGHBOUR = 4  # second half of proxy replies for terminals
FIRST_COPIES = 10  # one for each uplink with limits, in the site's order: counts copies

# ENTRY
TAGGED_PRIORITY = 100  # drops VLAN tags
OURSELVES_PRIORITY = 70  # drops solicitations in the gateway's name
TO_APP_PRIORITY = 60  # duplicate address detection of a gateway address: to the controller
LEARN_AND_ANSWER_PRIORITY = 50  # ARP request that shows a MAC to learn: to the controller, and answered
ANSWER_PRIORITY = 40  # ARP request or solicitation for a gateway address
ALONE_PRIORITY = 38  # unicast solicitation for it, on the kernel datapath: to the controller
PROXY_TO_APP_PRIORITY = 36  # duplicate address detection of a terminal's address: to the controller
PROXY_ASKED_PRIORITY = 35  # ARP request or solicitation for a terminal behind another port
PROXY_ALONE_PRIORITY = 34  # unicast solicitation for it, on the kernel datapath: to the controller
LEARN_PRIORITY = 30  # ARP and advertisements that show a MAC: to the controller
PROXY_ANNOUNCED_PRIORITY = 25  # drops the advertisements that a proxied solicitation causes
ECHO_PRIORITY = 20  # ping of a gateway address
REACHED_PRIORITY = 18  # answers from beyond the next hop: to the controller
UPLINK_FORGED_PRIORITY = 15  # drops inside sources from an uplink (RFC 2827)
FORWARD_PRIORITY = 10  # for the gateway's MAC: to ROUTE
TO_TERMINAL_PRIORITY = 10  # TCP from the host to a relayed terminal: to ROUTE
PASSED_ON_PRIORITY = 9  # TCP of a relayed terminal that the host passes on: to ROUTE
EXIT_FORGED_PRIORITY = 8  # drops sources of either site from the internet
EXIT_FORWARD_PRIORITY = 6  # others from the internet: to LEAVE
LAN_FORWARD_PRIORITY = 5  # devices of a LAN without an entry: to ROUTE

# ROUTE
OWN_PRIORITY = 50  # drops packets to the gateway's own addresses
BACK_PRIORITY = 45  # to a terminal behind the ingress port
TERMINAL_PRIORITY = 40
INSIDE_PRIORITY = 30  # delivers to devices of a LAN, drops other inside addresses of no terminal
UNROUTED_PRIORITY = 20  # drops addresses that no router forwards
EXCEPTED_PRIORITY = 18  # networks that relaying excepts: to LEAVE
INTERCEPT_PRIORITY = 14  # TCP of a relayed terminal: to the host
OUTSIDE_PRIORITY = 10

# LEAVE
EXIT_DROP_PRIORITY = 60  # drops packets from an uplink to either site, where the site has an exit
EXIT_PRIORITY = 50  # the other site's terminals to the internet
LAN_EXIT_PRIORITY = 49  # devices of its LAN without an entry
LEAVE_PRIORITIES = {  # classes with own modes, the bicast class, the rest
    Direction.RECEIVED: (45, 40, 30),
    Direction.SENT: (25, 20, 10),
}
LAN_PRIORITIES = {  # the same for devices of a LAN without an entry
    Direction.RECEIVED: (29, 28, 27),
    Direction.SENT: (9, 8, 7),
}

# NEIGHBOUR
OWN_PORT_PRIORITY = 20  # drops questions from the address's own port: the terminal answers itself
PROXY_ANSWER_PRIORITY = 10
