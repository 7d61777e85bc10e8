# SPDX-License-Identifier: Apache-2.0
"""The core at one moment, for readers: the snapshot, its builder, and the answer to `why`."""
