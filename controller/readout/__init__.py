# SPDX-License-Identifier: Apache-2.0
"""The core at one moment: the snapshot, and the answer to `why`."""
