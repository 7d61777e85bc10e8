"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more of what else runs on the machine than of the code.
settings.register_profile("anywhere", deadline=None)
settings.load_profile("anywhere")
