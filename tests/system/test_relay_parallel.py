"""One terminal's download by two relays at once, as the controller orders it, in real parts."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.flowing import flowing
from experiments.live.home import relayed_home
from experiments.running import TREE
from tests.system.conftest import Home
from tests.system.test_reload import IN_FORCE, reload
from topologies.home import RELAYS

BYTES = 20_000_000
LEAST_BYTES = BYTES // 20  # by way of the other relay: both ways are alike

# Nobody measures this home's uplinks: a controller that takes them for wider than what any relay promises.
CONTROLLER = f"""#!{sys.executable}
import runpy, sys
sys.path.insert(0, {str(TREE)!r})
from controller.measuring.measuring import Measuring
Measuring.uplink_bps = lambda *_: 1e12
sys.argv = sys.argv[sys.argv.index("-m") + 1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_a_download_goes_by_two_relays_at_once(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(CONTROLLER)
    python.chmod(0o755)
    with relayed_home(relays=tuple(RELAYS), python=str(python)) as home:
        home.pin("television", "bicast", "wifi")
        written = home.controller.file.read_text()
        home.controller.file.write_text(written.replace("relaying:", "relaying:\n      choose: parallel"))
        reload(Home(home.net, home.controller), IN_FORCE)
        home.await_passed_on("television")
        file = home.web.offer("long", BYTES)
        with flowing(home.machine("television"), file, "tcp") as under_way:
            while max(home.passed_on(), default=0) < LEAST_BYTES:
                assert not under_way.ended, home.passed_on()
            assert under_way.received().sha256 == file.sha256
