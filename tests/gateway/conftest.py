# SPDX-License-Identifier: Apache-2.0
"""pytest runs in an isolated world. Each test gets a network namespace, and a private Open vSwitch on request."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.stage import isolate
from lab.stage.ovs import PrivateOvs

ROOT = Path(__file__).parents[2]
CLONE_NEWNET = 0x40000000


def pytest_configure(config: pytest.Config) -> None:
    if not isolate.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)  # or the second pytest could not write to the terminal
        isolate.enter()


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    """Run a test in a fresh network namespace, which ends with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        shell("ip link set dev lo up")
        yield
    finally:
        if libc.setns(before, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(before)


@pytest.fixture
def ovs(tmp_path: Path) -> Iterator[PrivateOvs]:
    with PrivateOvs(tmp_path / "ovs") as running:
        yield running


def shell(line: str) -> str:
    """Run a line as a person would, from the root of the tree."""
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"`{line}` ended with {done.returncode}: {done.stderr}{done.stdout}"
    return done.stdout


GATEWAY = """\
controller:
  openflow: {{listen: {listen}{tls}}}
sites:
  home:
    dpid: "00000000000000a1"
    bridge: br-home
    datapath: netdev
    uplinks:
      wifi: {{port: w0, addresses: [192.168.100.2/24], next_hops: [{{address: 192.168.100.1}}]}}
      lte: {{port: l0, addresses: [192.168.200.2/24], next_hops: [{{address: 192.168.200.1}}]}}
    subnets:
      inside: {{gateways: [192.168.110.1/24]}}
    terminals:
      phone: {{addresses: [{{address: 192.168.110.3, port: c0}}]}}
"""


@pytest.fixture
def gateway_file(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a gateway.yaml of one site with the ports w0, l0 and c0."""

    def write(*, tls: bool = False, port: int = 6653, local: Path | None = None) -> str:
        place = tmp_path / "gateway.yaml"
        folder = tmp_path / "tls"
        paths = f", tls: {{certificate: {folder}/controller.pem, key: {folder}/controller.key, ca: {folder}/ca.pem}}"
        listen = f'"127.0.0.1:{port}"' if local is None else str(local)
        place.write_text(GATEWAY.format(listen=listen, tls=paths if tls else ""))
        return str(place)

    return write


@pytest.fixture
def ports() -> None:
    """Make the three ports as ends of veth pairs. Their other ends are up."""
    for name in ("w0", "l0", "c0"):
        shell(f"ip link add {name} type veth peer name {name}-far && ip link set {name}-far up")
