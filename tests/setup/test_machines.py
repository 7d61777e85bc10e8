# SPDX-License-Identifier: Apache-2.0
"""The machines' scripts run in a network namespace, on interfaces with the paper's MACs."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.setup.place import TREE, Done, program, run
from tests.setup.test_vagrantfile import machines, provisions

MOUNTED = ("/etc/systemd/system", "/var/www/html")  # server.sh writes here: into memory that ends with its namespace


def as_machine(name: str, directory: Path, then: str) -> Done:
    """Run the scripts that Vagrant runs on that machine, with its interfaces, and then a command."""
    programs = directory / "bin"
    program(programs, "systemctl", f'echo "$@" >>{shlex.quote(str(directory / "systemctl"))}')
    macs = [network["mac"] for network in machines()[name]["networks"]]
    lines = [f"mount -t tmpfs none {each}" for each in MOUNTED if Path(each).is_dir()]
    for index, mac in enumerate(macs):
        colons = ":".join(mac[at : at + 2] for at in range(0, 12, 2))
        lines.append(f"ip link add eth{index + 1} address {colons} type veth peer name far{index + 1}")
        lines.append(f"ip link set far{index + 1} up")
    script = provisions(name)["network"].replace("/opt/bicast", str(TREE))
    lines += [script, script, then]  # twice, as at every boot
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = run(["unshare", "--net", "--mount", "bash", "-ec", "\n".join(lines)], environment)
    assert done.returncode == 0, done.stderr
    return done


def test_the_client_has_a_route_and_an_endpoint_per_uplink(tmp_path: Path) -> None:
    ways = [f"ip -j route get 192.168.0.2 {source}" for source in ("", "from 192.168.110.3", "from 192.168.210.3")]
    *told, shown = as_machine("client", tmp_path, "; ".join([*ways, "ip mptcp endpoint show"])).stdout.split("\n", 3)
    begins, first, second = (json.loads(line)[0] for line in told)
    assert begins["prefsrc"] == "192.168.110.3"
    assert (first["gateway"], first["dev"]) == ("192.168.110.2", "eth1")
    assert (second["gateway"], second["dev"]) == ("192.168.210.2", "eth2")
    endpoints = shown.splitlines()
    assert [line.split(" id ")[0].split()[0] for line in endpoints] == ["192.168.110.3", "192.168.210.3"]
    assert ["backup" in line.split() for line in endpoints] == [False, True]
    assert all("subflow" in line.split() for line in endpoints)


@pytest.mark.parametrize("wish", ["cubic", "bbr"])
def test_server_routes_have_the_chosen_congestion_control(
    wish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONGESTION_CONTROL", wish)
    look = "for each in 110.3 210.3 100.2 200.2; do ip -j route get 192.168.$each; done"
    *told, shown = as_machine("server", tmp_path, f"{look}; ip route show 192.168.110.0/24").stdout.splitlines()
    assert [json.loads(line)[0]["gateway"] for line in told] == ["192.168.0.1"] * 4
    assert f"congctl {wish}" in shown


def test_the_server_runs_nginx_with_mptcp_and_the_papers_file(tmp_path: Path) -> None:
    look = "stat -c %s /var/www/html/500MB; cat /etc/systemd/system/nginx.service.d/mptcp.conf"
    shown = as_machine("server", tmp_path, look).stdout
    assert shown.startswith("500000000\n")
    assert "\nExecStart=/usr/bin/mptcpize run /usr/sbin/nginx " in shown
    assert "restart nginx" in (tmp_path / "systemctl").read_text().splitlines()
