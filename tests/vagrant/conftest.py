# SPDX-License-Identifier: Apache-2.0
"""`make vagrant-test` collects these tests. Elsewhere they are not: four emulated machines need minutes to boot."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "BICAST_BOX" in os.environ else ["test_*.py"]
