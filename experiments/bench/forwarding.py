# SPDX-License-Identifier: Apache-2.0
"""Measure the switch's cost of copies without link limits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from statistics import median

from experiments.bench.laboratory import lab
from lab.results.figures import Figure, Promise, at_least, figure, middle
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.paper import BRIDGE, SERVER, PaperTopo

REPEATS = 3
SECONDS, OMITTED_S = 4, 1  # per transfer; omitted at its start
UPLINK_PORTS = (3, 4)


def _packets_out() -> int:
    """Return the packets of both uplinks; the database's statistics would be seconds old."""
    told = ovs.ofctl("dump-ports", BRIDGE)
    lines = told.replace("\n           tx", " tx").splitlines()
    return sum(
        int(line.partition("tx pkts=")[2].partition(",")[0])
        for line in lines
        if any(line.strip().startswith(f"port  {number}:") for number in UPLINK_PORTS)
    )


class Iperf:
    def __init__(self, net: Stage, seconds: int = SECONDS) -> None:
        self._seconds = seconds
        self._client = net.machine("client")
        server = net.machine("server")
        self._listener = server.popen(["iperf3", "--server", "--bind", SERVER])
        while not server.run("ss", "-Hltn", "sport", "=", ":5201").stdout:
            time.sleep(0.05)

    def mbps(self, *, up: bool) -> float:
        return self._run(up)["end"]["sum_received"]["bits_per_second"] / 1e6

    def up(self) -> tuple[float, float]:
        """Return Mbit/s, and thousands of packets/s on both uplinks."""
        before = _packets_out()
        told = self._run(up=True)["end"]["sum_received"]
        packets = _packets_out() - before
        return told["bits_per_second"] / 1e6, packets / (self._seconds + OMITTED_S) / 1e3

    def _run(self, up: bool) -> dict[str, dict[str, dict[str, float]]]:
        words = ["iperf3", "--client", SERVER, "--bind", "192.168.110.3", "--json", "--time", str(self._seconds)]
        words += ["--omit", str(OMITTED_S)]
        done = self._client.run(*words, *(() if up else ("--reverse",)), timeout_s=60)
        told: dict[str, dict[str, dict[str, float]]] = json.loads(done.stdout)
        return told

    def end(self) -> None:
        self._listener.terminate()
        self._listener.communicate()


def ratio(what: str, ours: Sequence[float], plain: Sequence[float], promise: Promise) -> Figure:
    """Return the ratio of medians, with the pairs' spread."""
    pairs = [one / other for one, other in zip(ours, plain, strict=True)]
    return figure(what, median(ours) / median(plain), pairs, "", promise)


def bicast_against_plain() -> Iterator[Figure]:
    down: dict[str, list[float]] = {"off": [], "bicast": []}
    up: dict[str, list[float]] = {"off": [], "bicast": []}
    out: dict[str, list[float]] = {"off": [], "bicast": []}
    with lab(PaperTopo(shaped=False)) as stage:
        talk = Iperf(stage.net)
        for _ in range(REPEATS):
            for mode in down:
                stage.controller.client.set_mode("client", mode)
                down[mode].append(talk.mbps(up=False))
                goodput, packets = talk.up()
                up[mode].append(goodput)
                out[mode].append(packets)
        talk.end()
    for mode, name in (("off", "plain"), ("bicast", "bicast")):
        yield middle(f"download goodput, {name}", down[mode], "Mbit/s")
    yield ratio("download goodput, bicast / plain", down["bicast"], down["off"], at_least(0.85))
    for mode, name in (("off", "plain"), ("bicast", "bicast")):
        yield middle(f"upload goodput, {name}", up[mode], "Mbit/s")
        yield middle(f"upload packets out of the uplinks, {name}", out[mode], "1000/s")
    yield ratio("upload packets out, bicast / plain", out["bicast"], out["off"], at_least(0.85))


def group_against_flow() -> Iterator[Figure]:
    """Compare the same actions in a flow and in a one-bucket group."""
    got: dict[str, list[float]] = {"flow": [], "group": []}
    with raised(PaperTopo(shaped=False)) as net:
        macs = {port: ovs.vsctl("get", "Interface", port, "mac_in_use").strip('"\n') for port in ("gw-c1", "gw-wifi")}
        client, router = net.machine("client"), net.machine("router")
        _neighbour(client, "192.168.110.2", macs["gw-c1"], "wifi")
        _neighbour(router, "192.168.100.2", macs["gw-wifi"], "wifi")
        up = f"set_field:{macs['gw-wifi']}->eth_src,set_field:08:00:27:33:6d:a7->eth_dst,output:3"
        down = f"set_field:{macs['gw-c1']}->eth_src,set_field:08:00:27:86:0d:bc->eth_dst,output:1"
        groups = "".join(f"group_id={number},type=all,bucket={does}\n" for number, does in ((1, up), (2, down)))
        ovs.ofctl("add-groups", BRIDGE, "-", given=groups)
        talk = Iperf(net)
        for _ in range(REPEATS):
            for how, (there, back) in (("flow", (up, down)), ("group", ("group:1", "group:2"))):
                ovs.ofctl("add-flow", BRIDGE, f"in_port=1,ip,actions=dec_ttl,{there}")
                ovs.ofctl("add-flow", BRIDGE, f"in_port=3,ip,actions=dec_ttl,{back}")
                got[how].append(talk.mbps(up=True))
        talk.end()
    yield ratio("a group of one bucket / a flow with its actions, upload", got["group"], got["flow"], at_least(0.95))


def _neighbour(machine: Machine, address: str, mac: str, device: str) -> None:
    machine.run("ip", "neigh", "replace", address, "lladdr", mac, "dev", device)


def measure() -> Iterator[Figure]:
    yield from bicast_against_plain()
    yield from group_against_flow()
