# SPDX-License-Identifier: Apache-2.0
"""Run each compared variant between the two hosts of topologies/natted.py.

Ours runs between the terminal and the server, with a switch at either site. Peers run on homehost and farhost, so their
packets cross two links less.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from experiments.laboratories.two_sites import CLIENT, NATTED, Ground, laboratory
from experiments.peers.plan import RATES_BPS
from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import isolate
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.natted import FAR_OUTER, INNER_NETWORKS, OUTER, NattedTopo, nat
from topologies.paper import SERVER

BUILT = TREE / "build" / "peers"  # setup/peers.sh
UP_WITHIN_S = 20.0
WIREGUARD_PORT, ENGARDE_PORT, ENGARDE_LOCAL_PORT, VXLAN_PORT, MQVPN_PORT = 51820, 59501, 59401, 4789, 4433
NEAR_INNER, FAR_INNER = "10.77.0.2", "10.77.0.1"  # mqvpn's server takes the first
MQVPN_SCHEDULER = "backup_fec"  # loses least of those in 0.13; `redundant` came with 0.18


@dataclass(frozen=True, slots=True)
class Ends:
    """The machines and addresses between which traffic runs."""

    net: Stage
    near: Machine
    far: Machine
    near_address: str
    far_address: str
    tcp: tuple[str, ...] = ()  # command prefix that makes a program use MPTCP


Start = Callable[[Mapping[str, float], Path], AbstractContextManager[Ends]]


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    start: Start
    programs: tuple[str, ...] = ()  # in build/peers
    datagrams: bool = True
    blacks: int = 1  # rounds that blacken the path, for 30 s each

    @property
    def missing(self) -> list[str]:
        return [name for name in self.programs if not (BUILT / name).exists()]


# Ours


@contextmanager
def _ours(shape: Mapping[str, float], logs: Path, *, encrypted: bool) -> Iterator[Ends]:
    with ExitStack() as stack:
        ground = NATTED if encrypted else stack.enter_context(_clear())
        lab = stack.enter_context(laboratory(ground, logs, slower=shape))
        _set_rates(lab.net, shape)
        lab.pin("bicast")
        yield Ends(lab.net, lab.client, lab.server, CLIENT, SERVER)


@contextmanager
def _clear() -> Iterator[Ground]:
    """Write natted.yaml with tunnels in clear."""
    written = yaml.safe_load(NATTED.file.read_text(encoding="utf-8"))
    for site in written["sites"].values():
        for uplink in site["uplinks"].values():
            uplink["encryption"] = "none"
    with TemporaryDirectory(prefix="peers-", dir=isolate.RUN_DIRECTORY) as place:
        file = Path(place) / NATTED.file.name
        file.write_text(yaml.safe_dump(written), encoding="utf-8")
        yield Ground(file, NATTED.topo, tunnelled=True)


# Peers


Connected = Callable[[Stage, Path, ExitStack], Ends]


@contextmanager
def _peer(shape: Mapping[str, float], _logs: Path, *, connect: Connected) -> Iterator[Ends]:
    with (
        raised(NattedTopo(**shape)) as net,
        TemporaryDirectory(prefix="peers-", dir=isolate.RUN_DIRECTORY) as place,
        ExitStack() as running,
    ):
        _set_rates(net, shape)
        ends = connect(net, Path(place), running)
        _await_connected(ends, Path(place))
        yield ends


def _set_rates(net: Stage, shape: Mapping[str, float]) -> None:
    if shape.get("shaped", True):
        for name, rate_bps in RATES_BPS.items():
            for way in (net.uplink(name).forward, net.uplink(name).backward):
                way.set(rate_bps=rate_bps)


def _await_connected(ends: Ends, logs: Path) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while ends.near.run("ping", "-c", "1", "-W", "1", ends.far_address, check=False).returncode != 0:
        if time.monotonic() > deadline:
            told = "; ".join(f"{log.name}: {log.read_text()[-300:]}" for log in logs.glob("*.log"))
            raise ExperimentFailed(f"{ends.far_address} does not answer within {UP_WITHIN_S:.0f} s; {told}")
        time.sleep(LOOK_EVERY_S)


def _inner_ends(net: Stage) -> Ends:
    return Ends(net, net.machine("homehost"), net.machine("farhost"), NEAR_INNER, FAR_INNER)


def _running(running: ExitStack, machine: Machine, place: Path, *words: str) -> None:
    """Run a program until the variant ends."""
    log = running.enter_context((place / f"{machine.name}-{Path(words[0]).name}.log").open("ab"))
    process = machine.popen([*words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    running.callback(process.wait)
    running.callback(process.kill)


def _await_listening(machine: Machine, port: int) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while not machine.run("ss", "-Hlun", "sport", "=", f":{port}").stdout:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{machine.name}: nothing listens on UDP port {port} after {UP_WITHIN_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def _prefer_lte(net: Stage) -> None:
    """Make LTE the default: it loses less, so a tunnel over one path uses it."""
    net.machine("homehost").run("ip", "route", "replace", "default", "via", f"{INNER_NETWORKS['lte']}.1", "metric", "1")


def _wireguard(net: Stage, place: Path, running: ExitStack, endpoint: str) -> Ends:
    ends = _inner_ends(net)
    keys = [X25519PrivateKey.generate() for _ in range(2)]
    # The far end first: WireGuard repeats an unanswered handshake only after five seconds.
    sides = ((ends.far, "wg-far", FAR_INNER, ""), (ends.near, "wg-home", NEAR_INNER, endpoint))
    for (machine, device, address, peer), own, other in zip(sides, keys, reversed(keys), strict=True):
        _running(running, machine, place, str(BUILT / "wireguard-go"), "-f", device)
        public = other.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
        lines = [f"private_key={own.private_bytes_raw().hex()}"]
        lines += [] if peer else [f"listen_port={WIREGUARD_PORT}"]
        lines += [f"public_key={public}", "allowed_ip=0.0.0.0/0"]
        lines += [f"endpoint={peer}", "persistent_keepalive_interval=5"] if peer else []
        _configure_wireguard(device, lines)
        machine.run("ip", "address", "add", f"{address}/24", "dev", device)
        machine.run("ip", "link", "set", device, "up")
    return ends


def _configure_wireguard(device: str, lines: list[str]) -> None:
    """Use WireGuard's cross-platform interface, https://www.wireguard.com/xplatform/."""
    deadline = time.monotonic() + UP_WITHIN_S
    path = f"/var/run/wireguard/{device}.sock"
    with socket.socket(socket.AF_UNIX) as control:
        while control.connect_ex(path) != 0:  # a killed process leaves the file
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"wireguard-go does not listen on {path} after {UP_WITHIN_S:.0f} s")
            time.sleep(LOOK_EVERY_S)
        control.sendall("\n".join(["set=1", *lines, "", ""]).encode())
        answer = control.recv(1024).decode()
    if "errno=0" not in answer:
        raise ExperimentFailed(f"{device}: wireguard-go refused its configuration: {answer.strip()}")


def _wireguard_alone(net: Stage, place: Path, running: ExitStack) -> Ends:
    _prefer_lte(net)
    return _wireguard(net, place, running, f"{FAR_OUTER}:{WIREGUARD_PORT}")


def _engarde(net: Stage, place: Path, running: ExitStack) -> Ends:
    local = f"127.0.0.1:{ENGARDE_LOCAL_PORT}"
    client = {
        "listenAddr": local,
        "dstAddr": f"{FAR_OUTER}:{ENGARDE_PORT}",
        "writeTimeout": 10,
        "excludedInterfaces": ["lo", "mgmt", "wg-home"],
    }
    server = {
        "listenAddr": f"0.0.0.0:{ENGARDE_PORT}",
        "dstAddr": f"127.0.0.1:{WIREGUARD_PORT}",
        "clientTimeout": 30,
        "writeTimeout": 10,
    }
    file = place / "engarde.yml"
    file.write_text(yaml.safe_dump({"client": client, "server": server}), encoding="utf-8")
    for name, end, port in (("farhost", "server", ENGARDE_PORT), ("homehost", "client", ENGARDE_LOCAL_PORT)):
        _running(running, net.machine(name), place, str(BUILT / f"engarde-{end}"), str(file))
        _await_listening(net.machine(name), port)
    return _wireguard(net, place, running, local)


def _vxlan(net: Stage, _place: Path, _running: ExitStack) -> Ends:
    ends = _inner_ends(net)
    _prefer_lte(net)
    # VXLAN cannot traverse a NAT, so the NAT forwards its port.
    target = f'iifname "out" udp dport {VXLAN_PORT} dnat to {INNER_NETWORKS["lte"]}.2'
    chain = f"chain arriving {{ type nat hook prerouting priority dstnat; {target}; }}"
    nat(net, "lte").run("nft", "-f", "-", given=f"table ip forwarded {{ {chain}; }}\n")
    sides = ((ends.near, "un-lte", FAR_OUTER, NEAR_INNER), (ends.far, "un", f"{OUTER['lte']}.10", FAR_INNER))
    for machine, device, remote, address in sides:
        vxlan = ("vxlan", "id", "7", "dev", device, "remote", remote, "dstport", str(VXLAN_PORT))
        machine.run("ip", "link", "add", "vx", "type", *vxlan)
        machine.run("ip", "address", "add", f"{address}/24", "dev", "vx")
        machine.run("ip", "link", "set", "vx", "up")
    return ends


def _mptcp(net: Stage, _place: Path, _running: ExitStack) -> Ends:
    home = net.machine("homehost")
    for name, network in INNER_NETWORKS.items():
        home.run("ip", "mptcp", "endpoint", "add", f"{network}.2", "dev", f"un-{name}", "subflow")
    return Ends(net, home, net.machine("farhost"), f"{INNER_NETWORKS['wifi']}.2", FAR_OUTER, ("mptcpize", "run"))


def _mqvpn(net: Stage, place: Path, running: ExitStack) -> Ends:
    ends = _inner_ends(net)
    program = str(BUILT / "mqvpn")
    certificate, private = str(place / "certificate"), str(place / "key")
    request = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run(*request, "-keyout", private, "-out", certificate, "-days", "2", "-subj", "/CN=far")
    shared = ("--auth-key", run(program, "--genkey").stdout.strip(), "--scheduler", MQVPN_SCHEDULER)
    server = ("--mode", "server", "--listen", f"0.0.0.0:{MQVPN_PORT}", "--subnet", "10.77.0.0/24")
    _running(running, ends.far, place, program, *server, "--cert", certificate, "--key", private, *shared)
    client = ("--mode", "client", "--server", f"{FAR_OUTER}:{MQVPN_PORT}", "--insecure", "--no-manage-routes")
    paths = [word for name in INNER_NETWORKS for word in ("--path", f"un-{name}")]
    _running(running, ends.near, place, program, *client, *paths, *shared)
    deadline = time.monotonic() + UP_WITHIN_S
    route = ("ip", "route", "replace", f"{FAR_INNER}/32", "dev", "mqvpn0")
    while ends.near.run(*route, check=False).returncode != 0 and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return ends


OURS, CLEAR = "ours, encrypted", "ours, clear"
VARIANTS = (
    Variant(OURS, partial(_ours, encrypted=True), blacks=5),
    Variant(CLEAR, partial(_ours, encrypted=False)),
    Variant(
        "engarde",
        partial(_peer, connect=_engarde),
        ("engarde-client", "engarde-server", "wireguard-go"),
    ),
    Variant("wireguard-go, LTE", partial(_peer, connect=_wireguard_alone), ("wireguard-go",)),
    Variant("VXLAN, LTE", partial(_peer, connect=_vxlan)),
    Variant("MPTCP", partial(_peer, connect=_mptcp), datagrams=False),
    Variant(f"mqvpn {MQVPN_SCHEDULER}", partial(_peer, connect=_mqvpn), ("mqvpn",)),
)
