# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` and `./bicast doctor` handle relaying ports on a real Open vSwitch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.__main__ import main
from controller.edges.config.load import load
from gateway.checks import kernel, ports, relaying, switch
from gateway.doctor import Check
from gateway.finding import Finding, State
from gateway.scene import CheckContext
from tests.gateway.conftest import shell

RELAYING = """\
    relaying:
      port: rl-home
      uplinks:
        wifi: {port: rl-wifi, gateways: [10.97.1.1/24]}
        lte: {port: rl-lte, gateways: [10.97.2.1/24]}
"""


@pytest.mark.usefixtures("ovs", "ports")
def test_bridge_awaits_the_relaying_ports_of_the_agent(
    gateway_file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(gateway_file())
    text = file.read_text().replace("controller:\n", f"controller:\n  agents: {{directory: {tmp_path}/agents}}\n")
    file.write_text(text.replace("phone: {", "phone: {relayed: true, ") + RELAYING)
    told = [prepared(file, capsys) for _ in range(2)]
    for name in ("rl-home", "rl-wifi", "rl-lte"):
        assert f"awaited  {name}: the site's agent creates it" in told[1]
    assert "missing" not in told[1] and "nothing to change" in told[1]
    assert findings(file, switch.interfaces)["rl-home relaying"].state is State.WARNING
    for name in ("rl-home", "rl-wifi", "rl-lte"):
        shell(f"ip link add {name} mtu 1400 type veth peer name {name}-h && ip link set {name} up")
        shell(f"ovs-vsctl --timeout=60 wait-until Interface {name} 'ofport>0'")
    told.append(prepared(file, capsys))
    assert "rl-" not in re.sub(r"right .*", "", told[2]) and "nothing to change" in told[2]
    assert not findings(file, switch.interfaces)
    found = findings(file, ports.mtu, relaying.kernel, kernel.mptcp)
    assert {name: each.found for name, each in found.items() if each.state is not State.OK} == {}
    assert {"kernel nft TPROXY", "kernel relaying by MPTCP"} <= found.keys()


def prepared(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["bridge", str(file)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def findings(file: Path, *checks: Check) -> dict[str, Finding]:
    config = load(str(file))
    scene = CheckContext(str(file), config, config.sites)
    return {finding.name: finding for check in checks for finding in check(scene)}
