# SPDX-License-Identifier: Apache-2.0
"""The gateway of docs/how-to/home.md works behind two routers with different NAT addresses.

Nothing is copied there by default: servers answer the second copy of a TCP segment with a reset. The gateway leaves an
uplink that returns nothing, by the switch's counters alone and also if its router still answers.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, TREE, Controller, controlled
from lab.stage import command, ovs
from lab.stage.nodes import Gateway, Machine, Nat, Route
from lab.stage.stage import Stage, raised
from lab.traffic.web import WebServer, download, web_server
from tests.system.evidence import PATIENCE_S, SLOWNESS, until

PHONE, WEB = "192.168.110.10", "203.0.113.5"
REACHED = ("9.9.9.9", "1.1.1.1")  # the addresses in docs/how-to/home.md
BYTES = 100_000
DOWNLOADS = 5
ROUTERS = {"fibre": ("192.168.100", "198.51.100"), "lte": ("192.168.200", "192.0.2")}  # networks inside and outside


class TwoNats(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self) -> None:
        self.addSwitch("br-home", cls=Gateway, dpid="0000000000000001")
        self.addHost(
            "phone", cls=Machine, addresses={"lan": [f"{PHONE}/24"]}, routes=[Route("default", "192.168.110.1")]
        )
        self._link("phone", "br-home", "lan", "enp3s0", port2=3)
        internet = {name: [f"{outside}.1/24"] for name, (_, outside) in ROUTERS.items()}
        self.addHost(
            "internet",
            cls=Machine,
            forwards=True,
            addresses={**internet, "web": ["203.0.113.1/24", *(f"{each}/32" for each in REACHED)]},
        )
        for number, (name, (inside, outside)) in enumerate(ROUTERS.items(), 1):
            back = [Route(f"192.168.{net}.0/24", f"{inside}.2") for net in (110, 210)]
            self.addHost(
                name,
                cls=Nat,
                addresses={"in": [f"{inside}.1/24"], "out": [f"{outside}.10/24"]},
                routes=[*back, Route("default", f"{outside}.1")],
            )
            self._link("br-home", name, f"enp{number}s0", "in", port1=number, label=name)
            self._link(name, "internet", "out", name)
        self.addHost("web", cls=Machine, addresses={"lan": [f"{WEB}/24"]}, routes=[Route("default", "203.0.113.1")])
        self._link("web", "internet", "lan", "web")

    def _link(self, node1: str, node2: str, name1: str, name2: str, **options: Any) -> None:
        self.addLink(node1, node2, cls=ShapedLink, intfName1=name1, intfName2=name2, **options)


WITHIN_S = 3.0 * SLOWNESS


@dataclass(frozen=True, slots=True)
class NatHome:
    net: Stage
    controller: Controller
    web: WebServer

    def resets(self) -> int:
        """Return the resets that the server has sent since its start."""
        told = self.net.machine("web").run("nstat", "--ignore", "--zeros", "--json", "TcpOutRsts").stdout
        return int(json.loads(told)["kernel"]["TcpOutRsts"])

    def fetch(self) -> int:
        """Return how many of some downloads are complete."""
        file = self.web.offer("file", BYTES)
        phone = self.net.machine("phone")
        found = 0
        for _ in range(DOWNLOADS):
            with contextlib.suppress(command.CommandFailed):
                found += download(phone, file.url, timeout_s=10, mptcp=False).sha256 == file.sha256
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[NatHome]:
    page = (TREE / "docs/how-to/home.md").read_text()
    file = tmp_path / "gateway.yaml"
    file.write_text(
        page[page.index("```yaml\n") + 8 :].partition("```")[0].replace("datapath: system", "datapath: netdev")
    )
    with (
        controlled(file) as controller,
        raised(TwoNats(), controller=OPENFLOW) as net,
        web_server(net.machine("web"), WEB, mptcp=False) as web,
    ):
        controller.await_steady()
        yield NatHome(net, controller, web)


def test_servers_reset_connections_only_with_copies(home: NatHome) -> None:
    assert home.fetch() == DOWNLOADS and home.resets() == 0
    home.controller.client.set_mode("phone", "bicast")
    home.controller.await_steady()
    ovs.await_caches()
    home.fetch()
    assert home.resets() > 0, "else this laboratory shows nothing"


DROPS = "table ip dead { chain way { type filter hook forward priority filter - 1; drop; }; }\n"


def drops_what_it_forwards(home: NatHome) -> None:
    """Make an ordinary dead line: the router answers, and hosts behind it do not."""
    home.net.machine("fibre").run("nft", "-f", "-", given=DROPS)


def is_dead_beside_a_host_that_broadcasts(home: NatHome) -> None:
    router = home.net.machine("fibre")
    router.run("ip", "link", "set", "in", "arp", "off")
    drops_what_it_forwards(home)


def loses_nearly_all_downwards(home: NatHome) -> None:
    home.net.uplink("fibre").backward.set(loss_percent=90)


def loses_all_downwards(home: NatHome) -> None:
    home.net.uplink("fibre").backward.set(loss_percent=100)


@contextlib.contextmanager
def calling(home: NatHome, to: str = WEB) -> Iterator[None]:
    """Send 50 packets a second that no agent reports, and broadcasts of a host in fibre's network."""
    words = ["ping", "-q", "-i", "0.02", to]
    noise = ["ping", "-q", "-b", "-i", "1", "192.168.100.255"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        home.net.machine("phone").popen(words, **quiet) as call,
        home.net.machine("fibre").popen(noise, **quiet) as host,
    ):
        try:
            yield
        finally:
            call.terminate()
            host.terminate()


def fibre(home: NatHome) -> dict[str, Any]:
    """Return the entry of fibre in `why`."""
    told = home.controller.client.get("terminals", "phone", "decisions")
    return next(each for each in told["uplinks"] if each["uplink"] == "fibre")


def has_answered(uplink_port: int, protocol: str = "icmp") -> bool:
    """Return whether an address beyond this uplink's router has answered the controller."""
    lines = ovs.ofctl("dump-flows", "br-home", f"{protocol},in_port={uplink_port},nw_src={REACHED[0]}").splitlines()
    return any("n_packets=" in line and "n_packets=0" not in line for line in lines)


DEAD = (drops_what_it_forwards, is_dead_beside_a_host_that_broadcasts, loses_all_downwards)
IN_TIME = [pytest.param(fault, WITHIN_S, marks=pytest.mark.timed) for fault in DEAD]


@pytest.mark.parametrize(
    "fault, within_s", [*((fault, PATIENCE_S) for fault in (*DEAD, loses_nearly_all_downwards)), *IN_TIME]
)
def test_a_dead_uplink_is_left_without_an_agent(
    home: NatHome, fault: Callable[[NatHome], None], within_s: float
) -> None:
    client = home.controller.client
    assert home.fetch() == DOWNLOADS
    with calling(home):
        until(lambda: has_answered(1), "an address beyond fibre has answered while it worked")
        fault(home)
        began = time.monotonic()
        while client.get("terminals", "phone")["active_uplink"] != "lte" and time.monotonic() - began < within_s:
            time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
        took_s = time.monotonic() - began
    told = client.get("terminals", "phone", "decisions")
    assert told["active_uplink"] == "lte", told
    print(f"{fault.__name__}: left after {took_s:.1f} s, because {told['decisions'][0]['reason']}")
    assert "no packets return over it" in told["decisions"][0]["reason"]
    assert home.fetch() == DOWNLOADS


NO_PINGS = "table ip quiet { chain way { type filter hook input priority filter; ip protocol icmp drop; }; }\n"


@contextlib.contextmanager
def answers_only_dns(host: Machine) -> Iterator[None]:
    """Run a name server on a host that answers no pings."""
    host.run("nft", "-f", "-", given=NO_PINGS)
    words = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file"]
    with host.popen(words) as server:
        try:
            yield
        finally:
            server.terminate()


def test_a_dead_uplink_is_left_where_the_internet_answers_only_dns(home: NatHome) -> None:
    client = home.controller.client
    with answers_only_dns(home.net.machine("internet")), calling(home):
        until(lambda: has_answered(1, "udp"), "a name server beyond fibre has answered while it worked")
        drops_what_it_forwards(home)
        until(lambda: client.get("terminals", "phone")["active_uplink"] == "lte", "the phone moves to lte")
    assert not has_answered(1)


def test_nothing_moves_if_an_address_answers_on_no_uplink(home: NatHome) -> None:
    with calling(home):
        until(lambda: has_answered(1), "an address beyond fibre has answered while it worked")
        silent = "type filter hook {} priority filter - 1; drop;"
        chains = f"chain way {{ {silent.format('forward')} }}; chain own {{ {silent.format('input')} }};"
        home.net.machine("internet").run("nft", "-f", "-", given=f"table ip dead {{ {chains} }}\n")
        until(lambda: "so no conclusion is drawn" in fibre(home)["reason"], "`why` says that nothing follows")
    told = home.controller.client.get("terminals", "phone", "decisions")
    assert told["active_uplink"] == "fibre" and told["decisions"] == []
    assert "9.9.9.9 or 1.1.1.1 answered 0 of" in fibre(home)["reason"]
