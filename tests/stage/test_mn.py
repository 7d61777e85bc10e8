"""`mn --custom` raises our topologies by itself, wherever it is run and whatever the system's Open vSwitch does."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def mn(outside: dict[str, str], where: Path, *words: str) -> str:
    done = subprocess.run(["mn", *words], env=outside, cwd=where, capture_output=True, text=True, timeout=60)
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


def test_mn_raises_the_wide_topology(outside: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("sensor ping -c1 -W2 fd00:50::5\n")
    told = mn(
        outside, ROOT, "--custom", "topologies/wide.py", "--topo", "wide", "--test", "none", "--post", str(script)
    )
    assert "1 received" in told


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        ("paper,wifi_up_loss_percent=abc", "wifi_up_loss_percent=abc is no loss: expected a number of percent"),
        ("paper,wifi_down_loss_percent=101", "wifi_down_loss_percent=101 is no loss"),
        ("paper,foo=1", "there is no parameter foo: expected wifi_up_loss_percent"),
        ("wide,foo=1", "there is no parameter foo: expected congestion_control"),
    ],
)
def test_a_bad_parameter_is_one_sentence_and_the_machine_s_files_stay(
    outside: dict[str, str], topology: str, named: str
) -> None:
    file = ROOT / "topologies" / f"{topology.partition(',')[0]}.py"
    with tempfile.NamedTemporaryFile(dir="/tmp", suffix=".log") as kept:
        words = ["mn", "--custom", str(file), "--topo", topology, "--test", "none"]
        done = subprocess.run(words, env=outside, capture_output=True, text=True, timeout=60)
        assert Path(kept.name).exists()
    assert named in done.stderr
    assert "Traceback" not in done.stderr
