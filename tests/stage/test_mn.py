# SPDX-License-Identifier: Apache-2.0
"""`mn --custom` starts our topologies from any directory, without the system's Open vSwitch."""

from __future__ import annotations

import importlib
import re
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def mn(outside: dict[str, str], where: Path, *words: str) -> str:
    done = subprocess.run(["mn", *words], env=outside, cwd=where, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("where", [ROOT, Path("/")])
def test_mn_raises_the_paper_s_laboratory(outside: dict[str, str], tmp_path: Path, where: Path) -> None:
    script = tmp_path / "script"
    script.write_text("client ip -brief address\nsh ovs-vsctl list-ports br-home\nrouter tc qdisc show dev lte\n")
    del outside["PYTHONPATH"]
    topology = "paper,wifi_up_loss_percent=10,congestion_control=cubic,lte_backup=0"
    told = mn(outside, where, "--custom", str(ROOT / "topologies/paper.py"), "--topo", topology, "--test", "none",
              "--post", str(script))  # fmt: skip
    assert "192.168.110.3/24" in told
    assert "192.168.210.3/24" in told
    assert "gw-c1\ngw-c2\ngw-lte\ngw-wifi\n" in told.replace("\r", "")
    assert "tbf 10: root refcnt" in told
    assert "rate 10Mbit" in told


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        ("paper,wifi_up_loss_percent=abc", "wifi_up_loss_percent=abc: expected a percentage"),
        ("paper,foo=1", "unknown parameter foo: expected one of wifi_up_loss_percent"),
    ],
)
def test_a_bad_parameter_is_one_sentence_and_deletes_nothing(
    outside: dict[str, str], topology: str, named: str
) -> None:
    file = ROOT / "topologies" / f"{topology.partition(',')[0]}.py"
    with tempfile.NamedTemporaryFile(dir="/tmp", suffix=".log") as kept:
        words = ["mn", "--custom", str(file), "--topo", topology, "--test", "none"]
        done = subprocess.run(words, env=outside, capture_output=True, text=True, timeout=300)
        assert Path(kept.name).exists()
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def until(line: str, where: str = "sh") -> str:
    return f"{where} until {line} > /dev/null 2>&1; do sleep 0.2; done"


@pytest.mark.slow
def test_the_commands_of_the_mininet_page_work(outside: dict[str, str], tmp_path: Path) -> None:
    written = (ROOT / "docs/how-to/mininet.md").read_text()
    _, _, after = written.partition("    mn --custom topologies/natted.py --topo natted --controller remote\n")
    lines = [line.removeprefix("    mininet> ") for line in after.partition("\n\n")[0].splitlines()]
    run, *agents, ping, status = (line.replace("controller.log", "/run/bicast-lab/controller.log") for line in lines)
    copied = until("test $(./bicast status | grep -c ' all$') = 4")
    script = tmp_path / "script"
    waits = (until("./bicast status"), until("ping -c1 -W1 192.168.0.2", "client"), copied)
    script.write_text("\n".join((run, waits[0], *agents, *waits[1:], ping, status, "")))
    told = mn(outside, ROOT, "--custom", "topologies/natted.py", "--topo", "natted", "--controller", "remote",
              "--test", "none", "--post", str(script))  # fmt: skip
    assert "5 received" in told
    assert len(re.findall(r"^(?:wifi|lte) +(?:home|far) +up +\d+\.", told, re.MULTILINE)) == 4, told


@pytest.mark.parametrize("topology", ["paper", "wide", "twin", "natted", "beyond", "home"])
def test_no_topology_redefines_a_name_of_mn(topology: str) -> None:
    """`mn --custom` adds all names of the file to its own."""
    program = shutil.which("mn")
    assert program is not None
    own = runpy.run_path(program)
    named = vars(importlib.import_module(f"topologies.{topology}"))
    taken = [name for name in named.keys() & own if not name.startswith("__") and named[name] is not own[name]]
    assert taken == []
