"""The machines' own scripts, run on interfaces with the paper's MACs in a network of their own."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.setup.place import TREE, Done, program, run
from tests.setup.test_vagrantfile import machines, provisions

MOUNTED = ("/etc/systemd/system", "/var/www/html")  # what server.sh writes goes to the memory of its own world


def as_machine(name: str, directory: Path, then: str) -> Done:
    """Run what Vagrant runs on that machine, where its interfaces are, and then look."""
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


def answer(done: Done) -> Any:
    return json.loads(done.stdout)


def test_the_client_has_a_subflow_address_on_each_side_and_lte_is_backup(tmp_path: Path) -> None:
    shown = as_machine("client", tmp_path, "ip mptcp endpoint show").stdout.splitlines()
    assert [line.split(" id ")[0].split()[0] for line in shown] == ["192.168.110.3", "192.168.210.3"]
    assert ["backup" in line.split() for line in shown] == [False, True]
    assert all("subflow" in line.split() for line in shown)


def test_the_client_answers_by_the_side_it_was_asked_on(tmp_path: Path) -> None:
    look = "ip -j route get 192.168.0.2 from 192.168.110.3; ip -j route get 192.168.0.2 from 192.168.210.3"
    first, second = (json.loads(line)[0] for line in as_machine("client", tmp_path, look).stdout.splitlines())
    assert (first["gateway"], first["dev"]) == ("192.168.110.2", "eth1")
    assert (second["gateway"], second["dev"]) == ("192.168.210.2", "eth2")


def test_the_client_begins_on_the_first_side(tmp_path: Path) -> None:
    (route,) = answer(as_machine("client", tmp_path, "ip -j route get 192.168.0.2"))
    assert route["prefsrc"] == "192.168.110.3"


@pytest.mark.parametrize("machine", ["client", "server"])
def test_copies_from_the_wrong_side_are_accepted(machine: str, tmp_path: Path) -> None:
    done = as_machine(machine, tmp_path, "sysctl -n net.ipv4.conf.all.rp_filter net.ipv4.conf.eth1.rp_filter")
    assert done.stdout.split() == ["0", "0"]


def test_the_server_knows_the_ways_back(tmp_path: Path) -> None:
    look = "for each in 110.3 210.3 100.2 200.2; do ip -j route get 192.168.$each; done"
    routes = [json.loads(line)[0] for line in as_machine("server", tmp_path, look).stdout.splitlines()]
    assert [route["gateway"] for route in routes] == ["192.168.0.1"] * 4


@pytest.mark.parametrize("wish", ["cubic", "bbr"])
def test_the_servers_congestion_control_is_the_wished_one(
    wish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONGESTION_CONTROL", wish)
    shown = as_machine("server", tmp_path, "ip route show 192.168.110.0/24").stdout
    assert f"congctl {wish}" in shown


def test_the_server_offers_the_papers_file_over_an_nginx_that_speaks_mptcp(tmp_path: Path) -> None:
    look = "stat -c %s /var/www/html/500MB; cat /etc/systemd/system/nginx.service.d/mptcp.conf"
    shown = as_machine("server", tmp_path, look).stdout
    assert shown.startswith("500000000\n")
    assert "\nExecStart=/usr/bin/mptcpize run /usr/sbin/nginx " in shown
    assert "restart nginx" in (tmp_path / "systemctl").read_text().splitlines()


def test_a_machine_without_the_papers_interface_says_which_is_missing(tmp_path: Path) -> None:
    command = provisions("client")["network"].replace("/opt/bicast", str(TREE))
    done = run(["unshare", "--net", "bash", "-c", command], os.environ)
    assert done.returncode != 0
    assert "no network interface here has the MAC 08:00:27:86:0d:bc" in done.stderr
