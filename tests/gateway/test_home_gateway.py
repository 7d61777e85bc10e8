# SPDX-License-Identifier: Apache-2.0
"""The parts of docs/how-to/home.md fit together."""

from __future__ import annotations

import re
from pathlib import Path

from controller.edges.config.load import load
from tests.gateway.conftest import ROOT

PAGE = (ROOT / "docs/how-to/home.md").read_text()


def test_the_remote_part_fits_into_the_example(tmp_path: Path) -> None:
    whole, remote = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    place = tmp_path / "remote.yaml"
    place.write_text(whole.replace("controller:\n", remote, 1))
    settings = load(str(place)).settings
    assert settings.tls is not None
    assert str(settings.openflow) == "192.0.2.10:6653"
