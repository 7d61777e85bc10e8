# SPDX-License-Identifier: Apache-2.0
"""Who eliminates on ports of the kernel's datapath may end at any moment, too.

What a controller believes when it comes back is no affair of the datapath, and is believed for some seconds only: not
long enough for agents of an emulated processor to come back.
"""

from tests.system.test_elimination_ends import *  # noqa: F403

del test_a_controller_that_comes_back_changes_nothing  # noqa: F821
