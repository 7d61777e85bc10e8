# SPDX-License-Identifier: Apache-2.0
"""`make install-test` collects the journey. Elsewhere only the test of its page runs."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "BICAST_INSTALL_BOX" in os.environ else ["test_journey.py"]
