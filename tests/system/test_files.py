"""ovs-flows/ is the controller's own program: a bridge cannot be told which of the two filled it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from controller import config
from experiments.running import OPENFLOW, TREE, controlled
from gateway.plan import ports_of
from tests.system.evidence import program
from topologies import ovs
from topologies.command import run
from topologies.paper import BRIDGE, PaperTopo
from topologies.stage import raised

OVS_FLOWS = TREE / "ovs-flows"


@contextmanager
def paper() -> Iterator[tuple[Path, str]]:
    with raised(PaperTopo(shaped=False), controller=OPENFLOW):
        yield TREE / "topologies" / "paper.yaml", BRIDGE


@contextmanager
def office() -> Iterator[tuple[Path, str]]:
    """A bridge with the ports that the file names, and nobody behind them."""
    path = OVS_FLOWS / "office.yaml"
    site = config.load(str(path)).sites[0]
    with ovs.PrivateOvs():
        words = ["add-br", site.bridge, "--", "set", "Bridge", site.bridge, "datapath_type=netdev", "fail_mode=secure"]
        words += ["protocols=OpenFlow13", f"other_config:datapath-id={site.dpid:016x}"]
        for port in ports_of(site):
            words += ["--", "add-port", site.bridge, port, "--", "set", "Interface", port, "type=internal"]
        ovs.vsctl(*words, "--", "set-controller", site.bridge, OPENFLOW)
        for port in ports_of(site):
            run("ip", "link", "set", port, "up")
        yield path, site.bridge
        ovs.vsctl("del-br", site.bridge)


@pytest.mark.parametrize("gateway", [paper, office])
def test_the_files_and_the_controller_fill_a_bridge_alike(gateway: object, tmp_path: Path) -> None:
    with ExitStack() as stack:
        path, bridge = stack.enter_context(gateway())  # type: ignore[operator]
        with controlled(path, directory=tmp_path) as controller:
            controller.await_steady()
            by_controller = program(bridge)
        ovs.vsctl("del-controller", bridge)
        run(str(OVS_FLOWS / "load.sh"), bridge, str(OVS_FLOWS / path.stem))
        assert program(bridge) == by_controller
    assert all(by_controller), "there was something to compare"


def test_the_kept_files_are_what_render_writes(tmp_path: Path) -> None:
    run("./bicast", "render", "--into", str(tmp_path))
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.txt")}
    kept = {path.relative_to(OVS_FLOWS): path.read_text() for path in OVS_FLOWS.rglob("*.txt")}
    assert written == kept
