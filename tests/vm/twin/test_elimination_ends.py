# SPDX-License-Identifier: Apache-2.0
"""An agent that eliminates on ports of the kernel's datapath may end at any moment, too.

The deleted test does not depend on the datapath. A returning controller trusts its state for some seconds only, too
short for agents on an emulated processor to reconnect.
"""

from tests.system.test_elimination_ends import *  # noqa: F403

del test_a_returning_controller_changes_nothing  # noqa: F821
