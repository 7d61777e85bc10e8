"""The paper's lab on the kernel's datapath."""

from tests.system.test_paper_lab import *  # noqa: F403
